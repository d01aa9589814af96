"""What a configured matcher holds: its networks, its references and its outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rclpy.lifecycle import LifecycleNode

from niom_ros.core.errors import UserError
from niom_ros.core.faults import explained
from niom_ros.core.parameters import settings_of, stream_options_of
from niom_ros.core.settings import default_threads, SettingsError, StreamOptions
from niom_ros.core.threads import use_threads
from niom_ros.matching.matcher import Matcher
from niom_ros.matching.reference import BadReference
from niom_ros.nodes.outputs import Outputs
from niom_ros.references.folder import read_reference, ReferenceFolder
from niom_ros.references.known_reference import KnownReference
from niom_ros.references.library import ReferenceLibrary


@dataclass(frozen=True)
class Live:
    """A snapshot of the parameters; each frame uses one from beginning to end."""

    values: dict[str, Any]
    options: StreamOptions

    @classmethod
    def of(cls, values: dict[str, Any]) -> 'Live':
        """Return the snapshot for parameter values."""
        return cls(values, stream_options_of(values))

    @property
    def transport(self) -> tuple[str, bool]:
        """Return how images are to be received."""
        return self.values['image_transport'], self.values['reliable_image']

    @property
    def fewest_keypoints(self) -> int:
        """Return how many keypoints a reference needs to be found."""
        return self.options.matching.limits.min_inliers


@dataclass(frozen=True)
class Configured:
    """Everything that `configure` loads and `cleanup` frees."""

    matcher: Matcher
    library: ReferenceLibrary
    outputs: Outputs
    folder: ReferenceFolder | None

    def targets(self, live: Live) -> tuple[KnownReference, ...]:
        """Return the references that frames are searched for."""
        if live.values['match_all']:
            return self.library.all()
        selected = self.library.selected
        return () if selected is None else (selected,)

    def why_replaced(self, known: KnownReference | None, live: Live) -> str:
        """Say why a reference that was found is no longer looked for, '' if it is."""
        if known is None or any(each.revision == known.revision for each in self.targets(live)):
            return ''
        return f"'{known.id}' was replaced, removed or deselected after the image was taken"

    def close(self) -> None:
        """Close the outputs and release the folder for other nodes."""
        self.outputs.close()
        if self.folder is not None:
            self.folder.release()


def configure(
    node: LifecycleNode, live: Live, revision: int, report: Callable[[str], None]
) -> Configured:
    """Load the networks and references that the parameters name, and open the outputs.

    Revisions of references continue from the given one. A reference that cannot be loaded from a
    folder is reported and skipped.
    """
    values = live.values
    use_threads(values['threads'] or default_threads())
    matcher = Matcher(settings_of(values))
    matcher.load_for(live.options.matching)
    folder, outputs = folder_of(values), None
    try:
        kept_in = folder if values['keep_references'] else None
        library = ReferenceLibrary(kept_in, revision)
        loader = ReferenceLoader(library, matcher, live.fewest_keypoints)
        if folder is not None:
            loader.load_folder(folder, report)
        if values['reference_path']:
            library.choose(loader.load(values['reference_path'], report).id)
        outputs = Outputs(node)
        outputs.publish_reference(library.selected)  # even none, to replace an earlier one
    except BaseException:
        if outputs is not None:
            outputs.close()
        if folder is not None:
            folder.release()
        raise
    return Configured(matcher=matcher, library=library, outputs=outputs, folder=folder)


def folder_of(values: dict[str, Any]) -> ReferenceFolder | None:
    """Return the folder of references, claimed if new ones are to be stored there."""
    if not values['reference_folder']:
        if values['keep_references']:
            raise SettingsError('keep_references needs a folder: set reference_folder')
        return None
    folder = ReferenceFolder(values['reference_folder'])
    if values['keep_references']:
        folder.claim()
    return folder


class ReferenceLoader:
    """Loads references from files into a library."""

    def __init__(self, library: ReferenceLibrary, matcher: Matcher, fewest_keypoints: int) -> None:
        self._library = library
        self._matcher = matcher
        self._fewest_keypoints = fewest_keypoints

    def load(self, file: str | Path, report: Callable[[str], None]) -> KnownReference:
        """Load a reference, replacing an earlier one with the same name."""
        given = read_reference(file)
        for note in given.notes:
            report(f'{file}: {note}')
        reference = self._matcher.prepare(given, self._fewest_keypoints)
        return self._library.add(reference, str(file))

    def load_folder(self, folder: ReferenceFolder, report: Callable[[str], None]) -> None:
        """Load all references of a folder; broken ones are reported and skipped."""
        known: dict[str, Path] = {}
        for name, file in folder.files():
            try:
                if name in known:
                    raise BadReference(f"{file} and {known[name]} are both '{name}': rename one")
                known[self.load(file, report).id] = file
            except UserError as error:
                report(f'a reference was left out: {error}')
            except Exception as error:  # no file may keep the node from starting
                report(f'a reference was left out: {file}: {explained(error)}')
        selected = folder.selected()
        if selected in known or len(known) == 1:
            self._library.choose(selected if selected in known else next(iter(known)))
