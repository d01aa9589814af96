"""A small data folder for `niom eval`, made of the photos that scikit-image brings.

It has every set of the real one, each as small as can be, so that all benchmarks run in seconds.
"""

from pathlib import Path

import cv2
import numpy as np
from scipy.io import savemat

from niom_ros.simulation.virtual_scene import example_photo

SIZE = (240, 160)  # pixels of most pictures
VIEW = np.array([[0.9, 0.08, 10], [-0.06, 0.92, 12], [0.0002, 0.0001, 1]])


def photo(name: str, width: int = SIZE[0], height: int = SIZE[1]) -> np.ndarray:
    """Return an example photo in RGB."""
    return cv2.resize(example_photo(name), (width, height), interpolation=cv2.INTER_AREA)


def write(path: Path, rgb: np.ndarray) -> None:
    """Write a picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))


def drawn(rgb: np.ndarray) -> np.ndarray:
    """Return where a person would draw lines, more or less."""
    return cv2.Canny(cv2.GaussianBlur(rgb, (0, 0), 1.0), 60, 150) > 0


def write_benchmark_data(folder: Path) -> Path:
    """Write all sets."""
    write_drawings(folder / 'drawing')
    write_flat_scenes(folder / 'homography')
    write_faces(folder / 'afhq')
    write_movement(folder / 'pose/strecha')
    write_scenes(folder / 'scenes')
    write_marked_faces(folder / 'keypoints/dlib_faces')
    write_films(folder / 'video')
    return folder


def write_drawings(folder: Path) -> None:
    """Write photos with the lines that annotators saw, and drawings of other things."""
    for number, name in (('1001', 'coffee'), ('2002', 'rocket')):
        picture = photo(name)
        write(folder / f'bsds/{number}.jpg', picture)
        annotators = np.empty((1, 2), object)
        # The first one drew less, so the second one counts.
        annotators[0, 0] = {'Boundaries': np.eye(SIZE[1], SIZE[0], dtype=np.uint8)}
        annotators[0, 1] = {'Boundaries': drawn(picture).astype(np.uint8)}
        savemat(folder / f'bsds/{number}.mat', {'groundTruth': annotators})
    for path, name in (
        ('ikea/Chair/stol/step_0/step_0.png', 'coins'),
        ('ikea/Table/bord/step_0/step_0.png', 'camera'),
        ('pacs/sketch/guitar/1.png', 'page'),
        ('pacs/sketch/person/1.png', 'astronaut'),
    ):
        lines = np.where(drawn(photo(name)), 0, 255).astype(np.uint8)
        write(folder / path, cv2.cvtColor(lines, cv2.COLOR_GRAY2RGB))
    # Of a guitar nothing can be measured: no detector knows it.
    write(folder / 'pacs/photo/guitar/2.jpg', photo('brick', 160, 160))
    write(folder / 'pacs/photo/person/2.jpg', photo('astronaut', 160, 160))


def write_flat_scenes(folder: Path) -> None:
    """Write two views each of two flat scenes, in both formats of the truth."""
    for name, first, second in (
        ('coffee', 'oxford/cup/img1.png', 'oxford/cup/img2.png'),
        ('rocket', 'homogr/RocketA.png', 'homogr/RocketB.png'),
    ):
        picture = photo(name)
        write(folder / first, picture)
        write(folder / second, cv2.warpPerspective(picture, VIEW, SIZE))
    numbers = ' '.join(f'{number:.9g}' for number in VIEW.ravel())
    (folder / 'oxford/cup/H1to2p.xml').write_text(
        f'<?xml version="1.0"?><opencv_storage><H12><data>{numbers}</data></H12></opencv_storage>'
    )
    np.savetxt(folder / 'homogr/Rocket_model.txt', np.linalg.inv(VIEW))


def write_faces(folder: Path) -> None:
    """Write two faces of a cat, and one of a person, who is a dog here."""
    cat = photo('chelsea', 160, 160)
    write(folder / 'cat/1.jpg', cat)
    write(folder / 'cat/2.jpg', cv2.convertScaleAbs(cat[:, ::-1], alpha=0.8, beta=20))
    write(folder / 'dog/1.jpg', photo('astronaut', 160, 160))


def write_movement(folder: Path) -> None:
    """Write a picture before a wall, seen from two places."""
    camera = np.array([[250.0, 0, 120], [0, 250, 80], [0, 0, 1]])
    move = np.array([0.4, 0.02, 0.05])
    before, behind = (
        camera @ (np.eye(3) + np.outer(move, [0, 0, 1]) / depth) @ np.linalg.inv(camera)
        for depth in (2.0, 4.0)
    )
    wall, picture = photo('brick'), np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
    picture[30:130, 60:180] = photo('coffee', 120, 100)
    views = []
    for near, far in ((np.eye(3), np.eye(3)), (before, behind)):
        view = cv2.warpPerspective(wall, far, SIZE, borderMode=cv2.BORDER_REFLECT_101)
        in_front = cv2.warpPerspective(picture, near, SIZE)
        views.append(np.where(in_front.any(axis=2, keepdims=True), in_front, view))
    for index, view in enumerate(views):
        write(folder / f'wall/{index}.png', view)
    motion = np.eye(4)
    motion[:3, 3] = move
    numbers = [*camera.ravel(), *camera.ravel(), *motion.ravel()]
    line = ' '.join(['wall/0.png', 'wall/1.png', '0', '0', *(f'{n:.9g}' for n in numbers)])
    (folder / 'wall_pairs_with_gt.txt').write_text(line + '\n')


def write_scenes(folder: Path) -> None:
    """Write scenes of two photos side by side, with lists of what is in them."""
    # Of the drawings above only the person is here too, by the same name: nothing else may match.
    labels = {'chelsea': 'cat', 'astronaut': 'person', 'grass': 'pottedplant'}
    for number, names in (('1', ('chelsea', 'astronaut')), ('2', ('grass', 'chelsea'))):
        write(folder / f'voc100/{number}.jpg', np.hstack([photo(n, 160, 160) for n in names]))
        objects = ''.join(
            f'<object><name>{labels[name]}</name><bndbox><xmin>{1 + 160 * side}</xmin>'
            f'<ymin>1</ymin><xmax>{160 + 160 * side}</xmax><ymax>160</ymax></bndbox></object>'
            for side, name in enumerate(names)
        )
        (folder / f'voc100/{number}.xml').write_text(f'<annotation>{objects}</annotation>')
    write(folder / 'cartucho85/1.jpg', photo('brick'))
    (folder / 'cartucho85/1.txt').write_text('wall 1 1 200 150\n')
    write(folder / 'imagenet/n01_gravel.JPEG', photo('gravel'))


def write_marked_faces(folder: Path) -> None:
    """Write two pictures of one face with three marked points each."""
    face = photo('astronaut', 200, 200)
    shift = 20
    images = []
    for name, offset in (('1.jpg', 0), ('2.jpg', shift)):
        moved = np.roll(face, offset, axis=1)
        write(folder / name, moved)
        parts = ''.join(
            f"<part name='{index}' x='{x + offset}' y='{y}'/>"
            for index, (x, y) in enumerate([(70, 40), (95, 40), (83, 60)])
        )
        images.append(
            f"<image file='{name}' width='200' height='200'><box top='20' left='{50 + offset}' "
            f"width='70' height='70'>{parts}</box></image>"
        )
    (folder / 'landmarks68.xml').write_text(
        f'<dataset><images>{"".join(images)}</images></dataset>'
    )


def write_films(folder: Path) -> None:
    """Write a short video and some pictures of a camera that stands before a photo."""
    scene = photo('astronaut', 640, 480)
    (folder / 'box').mkdir(parents=True)
    video = cv2.VideoWriter(
        str(folder / 'box/box.mp4'), cv2.VideoWriter.fourcc(*'mp4v'), 10, (640, 480)
    )
    assert video.isOpened()
    for _ in range(25):
        video.write(cv2.cvtColor(scene, cv2.COLOR_RGB2BGR))
    video.release()
    for number in range(22):
        write(folder / f'kitchen7scenes/frame-{10 * number:06d}.color.jpg', scene)
