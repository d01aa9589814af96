"""The ways to match that benchmarks compare, by name.

A name is a preset, optionally followed by @ and the networks to use: `sew`, `sew@disk`,
`plain@superpoint+superglue`. Or it is what a user would otherwise choose: `sift`, `orb`.
"""

from dataclasses import dataclass, replace

from niom_ros.core.errors import UserError
from niom_ros.core.plugins import EXTRACTORS, MATCHERS
from niom_ros.core.settings import (
    DrawingSearch,
    HeatSourceName,
    Options,
    PairingBy,
    Settings,
    WeightingKind,
)

POINTS, INK = ('points',), ('points', 'ink', 'on_object')  # strategies


@dataclass(frozen=True)
class Preset:
    """What a preset changes in the options."""

    weighting: WeightingKind
    pairing: PairingBy = 'none'
    heat_source: HeatSourceName | None = None  # None: as given
    drawing_search: DrawingSearch = 'matches'
    strategies: tuple[str, ...] = POINTS


PRESETS: dict[str, Preset | None] = {
    'default': None,  # as the node does by default
    'plain': Preset('none'),
    'classical': Preset('none', strategies=('classical',)),  # SIFT, judged as matches are
    'ink': Preset('none', drawing_search='ink', strategies=INK),  # photos like plain
    'sew': Preset('sew'),
    'sew+nop': Preset('sew', 'text'),  # with Non-visual Object Pairing
    'sew+visual': Preset('sew', 'visual'),
    'sew+both': Preset('sew', 'both'),
    # Controls: equal weights for all keypoints, or the weights of SEW in random order.
    'uniform': Preset('uniform'),
    'shuffled': Preset('shuffled'),
    # The same with heat from elsewhere
    'sew+classifier': Preset('sew', heat_source='classifier'),
    'uniform+classifier': Preset('uniform', heat_source='classifier'),
    'shuffled+classifier': Preset('shuffled', heat_source='classifier'),
    'sew+agreement': Preset('sew', heat_source='agreement'),
    'uniform+agreement': Preset('uniform', heat_source='agreement'),
    'shuffled+agreement': Preset('shuffled', heat_source='agreement'),
    'alike': Preset('none', strategies=('alike',)),  # points of objects of the same kind
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
            'all but the last two may be followed by an extractor, such as sew@disk'
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
        source = change.heat_source or options.weighting.source
        options = replace(
            options,
            weighting=replace(options.weighting, kind=change.weighting, source=source),
            pairing=replace(options.pairing, by=change.pairing),
            drawing_search=change.drawing_search,
            strategies=change.strategies,
        )
    return Method(name, settings, options)
