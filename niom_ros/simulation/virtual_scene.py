"""A flat picture in a scene, seen by a moving camera: images with known ground truth."""

from dataclasses import dataclass, KW_ONLY
import math

import cv2
import numpy as np

from niom_ros.core.extras import needs_extra

DEMO_PHOTO = 'coffee'  # a cup of coffee by Rachel Michetti, public domain (CC0)
DEMO_SURROUNDINGS = 'gravel'  # by CC0 Textures, public domain (CC0)


def example_photo(name: str) -> np.ndarray:
    """Return one of the photos that come with scikit-image, as RGB."""
    with needs_extra('demo', 'the example photo'):
        from skimage import data

        photo = getattr(data, name)()  # a lazy loader imports it only now
    return photo if photo.ndim == 3 else cv2.cvtColor(photo, cv2.COLOR_GRAY2RGB)


@dataclass(frozen=True)
class View:
    """One camera image and the true position of the picture in it."""

    image: np.ndarray
    picture_to_image: np.ndarray  # 3 x 3


@dataclass(frozen=True)
class VirtualScene:
    """A picture on textured ground, under a camera that circles it in changing light."""

    picture: np.ndarray
    surroundings: np.ndarray
    width: int = 640
    height: int = 480
    _: KW_ONLY
    noise: float = 6.0  # standard deviation of each pixel, in grey values
    light_change: float = 0.35  # the light swings between 1 - this and 1 + this
    seed: int = 0
    closeness: float = 1.0  # how many times closer the camera is than usual

    def view(self, seconds: float, frame: int) -> View:
        """Return what the camera sees at a time; the frame number varies the noise."""
        picture_to_image = self.picture_to_image(seconds)
        scene = self._composed(self._ground(picture_to_image), self.picture, picture_to_image)
        return View(self._as_photographed(scene, seconds, frame), picture_to_image)

    def picture_to_image(self, seconds: float) -> np.ndarray:
        """Return the true homography at a time, from pixels of the picture to the camera's."""
        rotation, shift = self.pose(seconds)
        plane_to_camera = np.column_stack([rotation[:, 0], rotation[:, 1], shift])
        homography = self.camera_matrix() @ plane_to_camera @ self.pixels_to_plane()
        return homography / homography[2, 2]

    def pixels_to_plane(self) -> np.ndarray:
        """Return the transform from pixels of the picture to its plane, in picture widths."""
        height, width = self.picture.shape[:2]
        return np.array(
            [
                [1 / width, 0, -(width - 1) / 2 / width],
                [0, 1 / width, -(height - 1) / 2 / width],
                [0, 0, 1],
            ]
        )

    def pose(self, seconds: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the true rotation and position of the picture's centre, in picture widths.

        Both are in the optical frame of the camera; without rotation, the picture is upright and
        faces the camera.
        """
        tilt = math.radians(28) * (0.6 + 0.4 * math.sin(0.9 * seconds))
        azimuth = 0.7 * seconds
        roll = math.radians(25) * math.sin(0.5 * seconds)
        distance = 1.5 + 0.35 * math.sin(0.6 * seconds)
        tilt_axis = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
        rotation = cv2.Rodrigues(tilt * tilt_axis)[0] @ cv2.Rodrigues(np.array([0, 0, roll]))[0]
        shift = np.array(
            [
                0.10 * math.sin(0.8 * seconds),
                0.08 * math.cos(0.7 * seconds),
                distance / self.closeness,
            ]
        )
        return rotation, shift

    def camera_matrix(self) -> np.ndarray:
        """Return the intrinsic matrix (3 x 3) of the camera, which has no distortion."""
        focal = 0.9 * self.width
        return np.array(
            [
                [focal, 0, (self.width - 1) / 2],
                [0, focal, (self.height - 1) / 2],
                [0, 0, 1],
            ]
        )

    def _ground(self, picture_to_image: np.ndarray) -> np.ndarray:
        """Return the surroundings as the camera sees them."""
        return cv2.warpPerspective(
            self.surroundings,
            picture_to_image @ self._ground_to_picture(),
            (self.width, self.height),
            borderMode=cv2.BORDER_REFLECT_101,
        )

    def _composed(
        self, behind: np.ndarray, picture: np.ndarray, picture_to_image: np.ndarray
    ) -> np.ndarray:
        """Draw a picture onto an image: pixels outside the picture stay as they are."""
        return cv2.warpPerspective(
            picture,
            picture_to_image,
            (self.width, self.height),
            dst=behind,
            borderMode=cv2.BORDER_TRANSPARENT,
        )

    def _ground_to_picture(self) -> np.ndarray:
        """Lay the surroundings under the picture, three times as wide."""
        height, width = self.surroundings.shape[:2]
        scale = 3 * self.picture.shape[1] / width
        centre_x, centre_y = self.picture.shape[1] / 2, self.picture.shape[0] / 2
        return np.array(
            [
                [scale, 0, centre_x - scale * width / 2],
                [0, scale, centre_y - scale * height / 2],
                [0, 0, 1],
            ]
        )

    def _as_photographed(self, scene: np.ndarray, seconds: float, frame: int) -> np.ndarray:
        """Add uneven, changing light and sensor noise to a scene."""
        light = 1 + self.light_change * math.sin(1.3 * seconds)
        slope = np.linspace(1 - self.light_change / 2, 1 + self.light_change / 2, self.width)
        lamp = (light * slope).astype(np.float32)[None, :, None]
        noise = np.random.default_rng((self.seed, frame)).standard_normal(scene.shape, np.float32)
        return (scene * lamp + self.noise * noise).clip(0, 255).astype(np.uint8)
