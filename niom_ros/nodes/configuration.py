"""What a configured matcher has: its networks, its references and its outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rclpy.lifecycle import LifecycleNode
import torch

from niom_ros.core.errors import UserError
from niom_ros.core.faults import explained
from niom_ros.core.parameters import guide_options_of, settings_of
from niom_ros.core.settings import default_threads, GuideOptions, SettingsError
from niom_ros.matching.matcher import Matcher
from niom_ros.nodes.outputs import Outputs
from niom_ros.references.folder import read_reference, ReferenceFolder
from niom_ros.references.given import BadReference, NamedReference
from niom_ros.references.library import ReferenceLibrary


@dataclass(frozen=True)
class Live:
    """The parameters as they are now; a frame sees one such state from beginning to end."""

    values: dict[str, Any]
    options: GuideOptions

    @classmethod
    def of(cls, values: dict[str, Any]) -> 'Live':
        """Return what the values of parameters mean."""
        return cls(values, guide_options_of(values))

    @property
    def transport(self) -> tuple[str, bool]:
        """Return how images are to be received."""
        return self.values['image_transport'], self.values['reliable_image']

    @property
    def fewest_keypoints(self) -> int:
        """Return how many points a reference must have to be found again."""
        return self.options.matching.limits.min_inliers


@dataclass(frozen=True)
class Configured:
    """All that is loaded in `configure` and freed in `cleanup`."""

    pipeline: Matcher
    library: ReferenceLibrary
    outputs: Outputs
    folder: ReferenceFolder | None

    def sought(self, live: Live) -> tuple[NamedReference, ...]:
        """Return the references that frames are compared with."""
        if live.values['match_all']:
            return self.library.all()
        selected = self.library.selected
        return () if selected is None else (selected,)

    def close(self) -> None:
        """Close the outputs and let others use the folder."""
        self.outputs.close()
        if self.folder is not None:
            self.folder.release()


def configure(
    node: LifecycleNode, live: Live, revision: int, report: Callable[[str], None]
) -> Configured:
    """Load the networks and the references that the parameters name, and open the outputs.

    Revisions of references go on from the given one. What can be left out is reported.
    """
    values = live.values
    torch.set_num_threads(values['threads'] or default_threads())
    pipeline = Matcher(settings_of(values))
    folder, outputs = folder_of(values), None
    try:
        kept_in = folder if values['keep_references'] else None
        library = ReferenceLibrary(kept_in, revision)
        loader = ReferenceLoader(library, pipeline, live.fewest_keypoints)
        if folder is not None:
            loader.load_folder(folder, report)
        if values['reference_path']:
            library.choose(loader.load(values['reference_path'], report).id)
        outputs = Outputs(node)
        outputs.publish_reference(library.selected)  # also none, for those who saw an earlier one
    except BaseException:
        if outputs is not None:
            outputs.close()
        if folder is not None:
            folder.release()
        raise
    return Configured(pipeline, library, outputs, folder)


def folder_of(values: dict[str, Any]) -> ReferenceFolder | None:
    """Return the folder with references, claimed if they are to be kept there."""
    if not values['reference_folder']:
        if values['keep_references']:
            raise SettingsError('keep_references needs a folder: set reference_folder')
        return None
    folder = ReferenceFolder(values['reference_folder'])
    if values['keep_references']:
        folder.claim()
    return folder


class ReferenceLoader:
    """Takes references from files into a library."""

    def __init__(
        self, library: ReferenceLibrary, pipeline: Matcher, fewest_keypoints: int
    ) -> None:
        self._library = library
        self._pipeline = pipeline
        self._fewest_keypoints = fewest_keypoints

    def load(self, file: str | Path, report: Callable[[str], None]) -> NamedReference:
        """Load a reference, in place of an earlier one of its name."""
        given = read_reference(file)
        for note in given.notes:
            report(f'{file}: {note}')
        reference = given.prepared_by(self._pipeline, self._fewest_keypoints)
        return self._library.add(given, reference, str(file))

    def load_folder(self, folder: ReferenceFolder, report: Callable[[str], None]) -> None:
        """Load all references of a folder but those that are broken, which are reported."""
        known: dict[str, Path] = {}
        for name, file in folder.files():
            try:
                if name in known:
                    raise BadReference(f"{file} and {known[name]} are both '{name}': rename one")
                known[self.load(file, report).id] = file
            except UserError as error:
                report(f'a reference was left out: {error}')
            except Exception as error:  # a file of anyone must not keep the node from starting
                report(f'a reference was left out: {file}: {explained(error)}')
        selected = folder.selected()
        if selected in known or len(known) == 1:
            self._library.choose(selected if selected in known else next(iter(known)))
