"""What the metrics of benchmarks mean in words, and whether more of each is better."""

from collections.abc import Sequence
from dataclasses import dataclass
import re

from niom_ros.benchmarks.evaluation.answers import WRONG

# The units that errors of records are measured in.
PIXELS = ' px'
DEGREES = '°'
ERROR_UNITS = {
    'homography': PIXELS,
    'turned': PIXELS,
    'zoomed': PIXELS,
    'sketch': PIXELS,
    'manual': PIXELS,
    'abstain': PIXELS,
    'pose': DEGREES,
}
ERROR_NAMES = {PIXELS: 'mean corner error', DEGREES: 'pose error'}

# What to show first. Other benchmarks show their first metrics.
MAIN_METRICS = {
    'sketch': (
        'success_10px',
        'success_20px',
        'wrong_accepted',
        'success_10px_rotated',
        'success_10px_scaled',
        'success_10px_cluttered',
    ),
    'manual': (
        'success_10px_photographed',
        'success_10px_warped',
        'success_10px_thicker',
        'success_10px_part_of_a_page',
        'false_accept',
        'false_accept_upper',
    ),
    'kinds': (
        'mostly_on_object',
        'chance_mostly_on_object',
        'surely_on_object',
        'fits_object',
        'on_object',
        'chance_on_object',
        'called_alike',
        'falsely_called_alike',
        'accepted',
    ),
    'tmc': (
        'paired_pck_05',
        'paired_pck_10',
        'blind_paired_pck_10',
        'moved_paired_pck_10',
        'paired_recall_10',
        'rmse',
        'pck_05',
        'chance_pck_05',
    ),
    'pose': ('auc_5_clean', 'auc_10_clean', 'auc_20_clean', 'auc_20_both', 'auc_20_one'),
    'homography': ('auc_3', 'auc_5', 'auc_10', 'wrong_accepted'),
    'turned': ('found_least', 'found', 'found_on_table', 'found_among_clutter', 'wrong_accepted'),
    'zoomed': (
        'found',
        'found_sixth',
        'found_half',
        'found_twice',
        'found_four_times',
        'wrong_accepted',
    ),
    'instances': (
        'copies_found',
        'copies_found_of_two',
        'copies_found_of_five',
        'copies_found_overlapping',
        'wrong_accepted',
        'wrong_accepted_upper',
    ),
    'pairing': ('top1', 'top1_detectable', 'detectable'),
    'abstain': (
        'false_accept',
        'false_accept_upper',
        'true_accept',
        'false_alike',
        'false_alike_upper',
        'true_alike',
    ),
    'landmarks': (
        'pck_05',
        'pck_10',
        'known_area_pck_10',
        'box_pck_10',
        'gain_over_box',
        'published_pck_10',
        'published',
        'claimed_right',
        'claimed',
        'chance_pck_05',
        'chance_pck_10',
        'local_pck_10',
        'accepted',
    ),
    'tracking': (
        'tracked_minus_full',
        'tracked_minus_full_box',
        'tracked_error',
        'full_error',
        'relocked_seconds',
        'cut_frames_most',
        'wrong_claims',
    ),
    'uncertainty': (
        'worst_factor',
        'squared_photos_corners_far_held_out',
        'squared_drawings_corners_far_held_out',
        'squared_tracked_photos_corners_far_held_out',
        'squared_tracked_photos_pose_held_out',
    ),
}
MAX_MAIN = 6

MORE, LESS, NEITHER = 1, -1, 0  # is better


@dataclass(frozen=True)
class Meaning:
    """What a metric means."""

    label: str
    words: str  # '': no explanation
    better: int  # MORE, LESS or NEITHER

    @property
    def direction(self) -> str:
        """Say whether more or less is better."""
        return {MORE: 'more is better', LESS: 'less is better', NEITHER: ''}[self.better]


# Patterns of metric names: the first that matches a name counts. {0} is the number in the name
# and {unit} the unit of errors; two digits such as 05 are hundredths.
PATTERNS: tuple[tuple[str, str, str, int], ...] = (
    (
        r'auc_(\d+)',
        'AUC to {0}{unit}',
        'area under the curve of errors up to {0}{unit}; 1 if all are exact, 0 if none is below',
        MORE,
    ),
    (
        r'success_(\d+)px',
        'within {0} px',
        'share of pairs that were found with a mean corner error below {0} px',
        MORE,
    ),
    (
        r'guess_(\d+)px',
        'best guess within {0} px',
        'share of pairs whose best view has a mean corner error below {0} px, accepted or not',
        MORE,
    ),
    (
        r'found_least',
        'found in the worst direction',
        'share of photos found in the direction in which the fewest are',
        MORE,
    ),
    (
        r'copies_found',
        'copies found',
        'share of the copies of a photo at which it is found, less than 10 px off',
        MORE,
    ),
    (
        r'found',
        'found',
        'share of photos that are accepted and less than 10 px off where they are visible',
        MORE,
    ),
    (
        r'wrong_accepted_upper',
        'wrong among accepted, at most',
        'the true share of wrong answers among the accepted ones is below this with 95 % '
        'certainty',
        LESS,
    ),
    (
        r'wrong_accepted',
        'wrong among accepted',
        f'share of the accepted answers that are wrong: {WRONG:g} px or more off; of photos '
        'that are turned, zoomed or there several times, 10 px',
        LESS,
    ),
    (
        r'rmse',
        'RMSE',
        'root mean square distance between matches by way of another picture and direct ones, '
        'in sizes of the picture',
        LESS,
    ),
    (
        r'paired_pck_(\d\d)',
        'paired PCK {0}',
        'share of points that end within {0} of the size from their true place',
        MORE,
    ),
    (
        r'blind_paired_pck_(\d\d)',
        'paired PCK {0}, points stay',
        'what the same points would reach if they just stayed at the same place of the picture: '
        'compare paired PCK {0} with it',
        NEITHER,
    ),
    (
        r'moved_paired_pck_(\d\d)',
        'paired PCK {0}, moved',
        'share of points that end within {0} of the size from their true place, if the last '
        'picture is so much smaller and shifted that none does by staying where it is',
        MORE,
    ),
    (
        r'local_pck_(\d\d)',
        'local PCK {0}',
        'share of landmarks within {0} of the size from their true place, each carried over by '
        'the matches around it',
        MORE,
    ),
    (
        r'published_pck_(\d\d)',
        'published PCK {0}',
        'share of landmarks within {0} of the size from their true place, if those of answers '
        'that are refused count as misses',
        MORE,
    ),
    (
        r'pck_(\d\d)_if_published',
        'PCK {0}, of published',
        'share of landmarks within {0} of the size from their true place, in the answers that '
        'are not refused',
        MORE,
    ),
    (
        r'published',
        'published',
        'share of pairs whose answer is not refused, so that a node publishes its landmarks',
        MORE,
    ),
    (
        r'known_area_pck_(\d\d)',
        'PCK {0}, area given',
        'the same, if the area that shows the object is given',
        MORE,
    ),
    (
        r'box_pck_(\d\d)',
        'box PCK {0}',
        'what the true box of one object, stretched onto that of the other, would reach',
        NEITHER,
    ),
    (r'gain_over_box', 'gain over box', 'PCK 10 above what the true boxes would reach', MORE),
    (
        r'centre_pck_(\d\d)',
        'centre PCK {0}',
        'what the true box of one object, moved to the centre of the other, would reach',
        NEITHER,
    ),
    (
        r'claimed_right',
        'right, of claimed',
        'share of the landmarks with a confidence of one half that are within 10 of their place',
        MORE,
    ),
    (r'claimed', 'claimed', 'share of the landmarks with a confidence of one half or more', MORE),
    (
        r'chance_pck_(\d\d)',
        'chance PCK {0}',
        'what points at random places would reach: compare PCK {0} with it',
        NEITHER,
    ),
    (
        r'pck_(\d\d)',
        'PCK {0}',
        'share of points within {0} of the size from where they belong, also in answers that are '
        'refused',
        MORE,
    ),
    (
        r'recall_(\d\d)',
        'recall {0}',
        'share of direct matches with one by way of another picture within {0} of the size',
        MORE,
    ),
    (
        r'top1_detectable',
        'right, of detectable',
        'share of pairs with the right partner, among those whose objects the detector saw',
        MORE,
    ),
    (
        r'top1_kinds',
        'right partner, by kind',
        'the same, but every kind of object has the same weight',
        MORE,
    ),
    (r'top1', 'right partner', 'share of pairs in which the right object was chosen', MORE),
    (r'detectable', 'detectable', 'share of pairs whose objects the detector saw', NEITHER),
    (
        r'false_alike_upper',
        'wrongly called alike, at most',
        'the true share of those wrongly called alike is below this with 95 % certainty',
        LESS,
    ),
    (
        r'false_alike',
        'wrongly called alike',
        'share of the pairs of different kinds of objects that are called alike',
        LESS,
    ),
    (
        r'true_alike',
        'rightly called alike',
        'share of the pairs of different objects of one kind that are called alike',
        MORE,
    ),
    (
        r'false_accept_upper',
        'false accepts, at most',
        'the true share of false accepts is below this with 95 % certainty',
        LESS,
    ),
    (
        r'false_accept',
        'false accepts',
        'share of the pairs with nothing to find that are accepted',
        LESS,
    ),
    (
        r'true_accept',
        'true accepts',
        'share of the pairs with something to find in which it is found, less than 20 px off',
        MORE,
    ),
    (r'weighted', 'weighted', 'share of matchings in which weights were applied', NEITHER),
    (
        r'paired_recall_(\d\d)',
        'paired recall {0}',
        'share of direct matches near which a point arrives that belongs there, within {0} of '
        'the size',
        MORE,
    ),
    (
        r'mostly_on_object',
        'mostly on the object',
        'share of pairs with more than half of the matches where a detector sees the object',
        MORE,
    ),
    (
        r'chance_mostly_on_object',
        'chance of mostly on the object',
        'what the same points would reach if shifted: compare mostly on the object with it',
        NEITHER,
    ),
    (
        r'blind_mostly_on_object',
        'mostly on the object, sketch laid over the photo',
        'what the same points would reach if the sketch were just laid over the photo',
        NEITHER,
    ),
    (
        r'surely_on_object',
        'on the object beyond chance',
        'share of pairs with most matches on the object, where fewer than 5 % of random '
        'shifts would put as many',
        MORE,
    ),
    (
        r'fits_object',
        'fits the object',
        'share of pairs in which the box around the matches and that of the object have more than '
        'half in common',
        MORE,
    ),
    (
        r'blind_fits_object',
        'fits the object, sketch laid over the photo',
        'what the same points would reach if the sketch were just laid over the photo',
        NEITHER,
    ),
    (
        r'overlap',
        'overlap with the object',
        'mean share that the box around the matches and that of the object have in common',
        MORE,
    ),
    (
        r'on_object',
        'matches on the object',
        'mean share of the matches that are where a detector sees the object',
        MORE,
    ),
    (
        r'chance_on_object',
        'chance of matches on the object',
        'mean share of the photo that the object covers: compare matches on the object with it',
        NEITHER,
    ),
    (
        r'blind_on_object',
        'matches on the object, sketch laid over the photo',
        'what the same points would reach if the sketch were just laid over the photo',
        NEITHER,
    ),
    (
        r'agreeing_on_object',
        'agreeing matches on the object',
        'mean share on the object of those matches that agree on a view',
        MORE,
    ),
    (
        r'not_measured',
        'pairs not measured',
        'number of pairs in whose photo no object of the kind is seen',
        NEITHER,
    ),
    (
        r'full_error',
        'error of full matches',
        'median error of full matches, of frames that were tracked as well',
        LESS,
    ),
    (
        r'tracked_error_95',
        'error of tracking, 95th percentile',
        'error that 95 % of the tracked frames do not exceed',
        LESS,
    ),
    (r'tracked_error', 'error of tracking', 'median error of all tracked frames', LESS),
    (
        r'tracked_minus_full_95',
        'excess error of tracking, 95th percentile',
        '95th percentile of how far the error of a tracked frame is above that of the full match '
        'of the same frame',
        LESS,
    ),
    (
        r'tracked_minus_full',
        'excess error of tracking',
        'median of how far the error of a tracked frame is above that of the full match '
        'of the same frame',
        LESS,
    ),
    (
        r'tracked_near_full',
        'tracking as good as full',
        'share of frames tracked with an error at most 1.5 px above that of a full match',
        MORE,
    ),
    (
        r'unconfirmed',
        'not confirmed',
        'share of tracked frames in which a full match finds nothing',
        NEITHER,
    ),
    (
        r'lost',
        'not tracked',
        'share of frames with the reference that were not tracked, after it was first found; '
        'in videos, of those in which a full match finds it',
        LESS,
    ),
    (
        r'relocked_seconds_most',
        'longest until found again',
        'seconds from the end of a cover until it is tracked again, at most',
        LESS,
    ),
    (
        r'relocked_seconds',
        'until found again',
        'seconds from the end of a cover until it is tracked again, median',
        LESS,
    ),
    (
        r'relocked',
        'found again',
        'share of films in which it is tracked again after it was covered',
        MORE,
    ),
    (
        r'cut_in_3_frames',
        'cuts noticed',
        'share of cuts after which tracking reports within 3 frames that nothing is tracked',
        MORE,
    ),
    (
        r'cut_frames_most',
        'longest until a cut is noticed',
        'frames from a cut until tracking reports that nothing is tracked, at most; 1: at once',
        LESS,
    ),
    (
        r'wrong_claims',
        'wrong claims',
        'share of tracked frames whose answer is 10 px or more off, or in which it cannot be seen',
        LESS,
    ),
    (
        r'called_alike_on_object',
        'called alike, on the object',
        'share of the pairs called alike with more than half of the points where a detector sees '
        'the object',
        MORE,
    ),
    (
        r'falsely_called_alike_upper',
        'other kinds called alike, at most',
        'upper 95 % bound of the share of photos of other kinds in which the kind is claimed',
        LESS,
    ),
    (
        r'falsely_called_alike',
        'other kinds called alike',
        'share of photos of other kinds in which the kind is claimed',
        LESS,
    ),
    (
        r'called_alike',
        'called alike',
        'share of pairs whose answer is another object of the kind',
        MORE,
    ),
    (
        r'worst_factor',
        'worst factor',
        'how many times too large or too small the stated variances are where they are worst, of '
        'pictures that they were not fitted on',
        LESS,
    ),
    (
        r'squared',
        'squared error',
        'mean squared error in units of the stated variance: 1 is right, more is too certain',
        NEITHER,
    ),
    (
        r'median',
        'median squared error',
        'the same, but the median, by that of normally distributed errors: a few large errors '
        'do not matter',
        NEITHER,
    ),
    (r'answers', 'answers', 'number of accepted answers that were measured', NEITHER),
    (
        r'accepted',
        'accepted',
        'share of pairs in which the method claims to have found it',
        NEITHER,
    ),
)

CONDITIONS = {
    'clean': 'pictures as they are',
    'both': 'both pictures damaged',
    'one': 'one picture damaged',
}


def meaning(benchmark: str, metric: str) -> Meaning:
    """Return what a metric means; an unknown one keeps its name."""
    for pattern, label, words, better in PATTERNS:
        if fits := re.fullmatch(rf'{pattern}(?:_(\w+))?', metric):
            *numbers, rest = fits.groups()
            # Tolerances are written in hundredths with two digits.
            scale = 100 if r'\d\d' in pattern else 1
            number = f'{int(numbers[0]) / scale:.3g}' if numbers else ''
            unit = ERROR_UNITS.get(benchmark, '')
            label, words = (text.format(number, unit=unit) for text in (label, words))
            if rest:
                label, words = f'{label}, {spaced(rest)}', f'{words}; {condition(rest)}'
            return Meaning(label, words, better)
    return Meaning(spaced(metric), '', NEITHER)


def condition(rest: str) -> str:
    """Say which pairs the rest of a name is about."""
    first, _, damage = rest.partition('_')
    if first not in CONDITIONS:
        return f'only {spaced(rest)}'
    return f'{CONDITIONS[first]} by {spaced(damage)}' if damage else CONDITIONS[first]


def spaced(name: str) -> str:
    """Return a name as words."""
    return name.replace('_', ' ')


def main_metrics(benchmark: str, names: Sequence[str], main: str) -> list[str]:
    """Return the metrics to show first, of those that exist."""
    chosen = [name for name in MAIN_METRICS.get(benchmark, ()) if name in names]
    chosen = chosen or list(names)[:MAX_MAIN]
    return chosen if main in chosen or main not in names else [main, *chosen]
