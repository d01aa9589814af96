"""The ways to match that benchmarks compare, by name.

A name is a preset, optionally followed by @ and the networks to use: `sew`, `sew@disk`,
`plain@superpoint+superglue`. Or it is what a user would otherwise choose: `sift`, `orb`.
"""

from dataclasses import dataclass, replace

from niom_ros.core.errors import UserError
from niom_ros.core.plugins import EXTRACTORS, MATCHERS
from niom_ros.core.settings import Options, Settings

# What each preset changes: weighting, pairing, and how drawings are found.
PRESETS: dict[str, tuple[str, str, str] | None] = {
    'default': None,  # as the node does by default
    'plain': ('none', 'none', 'matches'),
    'ink': ('none', 'none', 'ink'),  # drawings by their ink alone, all else like plain
    'sew': ('sew', 'none', 'matches'),
    'sew+nop': ('sew', 'text', 'matches'),  # with Non-visual Object Pairing
    'sew+visual': ('sew', 'visual', 'matches'),
    'sew+both': ('sew', 'both', 'matches'),
    # Controls: equal weights for all keypoints, or the weights of SEW in random order.
    'uniform': ('uniform', 'none', 'matches'),
    'shuffled': ('shuffled', 'none', 'matches'),
}
CLASSICAL = ('sift', 'orb')


@dataclass(frozen=True)
class Method:
    """A way to match: the matcher with some settings, or a classical one."""

    name: str
    settings: Settings
    options: Options
    classical: str = ''  # sift or orb, which have no other settings


def method_named(name: str, settings: Settings, options: Options) -> Method:
    """Return the method of a name; settings that the name does not set stay as given."""
    preset, _, networks = name.partition('@')
    if preset in CLASSICAL:
        if networks:
            raise UserError(f'{preset} has no network to choose: write {preset} alone')
        return Method(name, settings, options, classical=preset)
    if preset not in PRESETS:
        known = ', '.join((*PRESETS, *CLASSICAL))
        raise UserError(
            f"there is no method '{preset}': use one of {known}; "
            'after all but the last two an extractor may be named, such as sew@disk'
        )
    if networks:
        extractor, _, matcher = networks.partition('+')
        for what, value, choices in (
            ('extractor', extractor, EXTRACTORS.names),
            ('matcher', matcher or settings.matcher, MATCHERS.names),
        ):
            if value not in choices:
                known = ', '.join(choices)
                raise UserError(f"{name}: there is no {what} '{value}': use one of {known}")
        settings = replace(settings, extractor=extractor, matcher=matcher or settings.matcher)
    change = PRESETS[preset]
    if change is not None:
        weighting, pairing, drawing_search = change
        options = replace(
            options,
            weighting=replace(options.weighting, kind=weighting),
            pairing=replace(options.pairing, by=pairing),
            drawing_search=drawing_search,
        )
    return Method(name, settings, options)
