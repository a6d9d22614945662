# SPDX-License-Identifier: Apache-2.0
"""Which scene of the fused operator a call is, by what it passes and its two modes."""

from collections.abc import Mapping, Sequence

from .arguments import Array
from .qkv_mrope import MROPE
from .qkv_mx import MX
from .qkv_rope import ROPE
from .qkv_scene import PER_TOKEN_PER_HEAD, POSITION, Scene

SCENES = (ROPE, MROPE, MX)


def choose_scene(
    mrope_position: Array | None, mrope_section: Sequence[int], q_quant_mode: str | None, k_quant_mode: str | None
) -> Scene:
    """The scene; modes None and "" stand for "PerTokenPerHead". Raises ValueError where there is none."""
    if mrope_position is not None and not mrope_section:
        raise ValueError("mrope_section: expected three counts of lanes [t, h, w] beside mrope_position, got none")
    if mrope_position is None and mrope_section:
        raise ValueError("mrope_position: expected an array [T, 3] beside mrope_section, got None")
    modes = q_quant_mode or PER_TOKEN_PER_HEAD, k_quant_mode or PER_TOKEN_PER_HEAD
    possible = [scene for scene in SCENES if (POSITION.keys() <= scene.arguments.keys()) == bool(mrope_section)]
    for scene in possible:
        if scene.modes == modes:
            return scene
    expected = " or ".join(f"{scene.modes[0]!r} with {scene.modes[1]!r} ({scene.name})" for scene in possible)
    given = "with" if mrope_section else "without"
    raise ValueError(
        f"q_quant_mode and k_quant_mode: expected {expected} {given} mrope_position and mrope_section, "
        f"got {modes[0]!r} with {modes[1]!r}"
    )


def pick_arguments(scene: Scene, tensors: Mapping[str, Array | None]) -> dict[str, Array]:
    """The tensors that the scene takes, present or not. Raises ValueError for any other that is not None."""
    for name, tensor in tensors.items():
        if name not in scene.arguments and tensor is not None:
            raise ValueError(f"{name}: expected None, since the scene {scene.name} takes none")
    # One that is missing is no array, which check_arrays says.
    return {name: tensors[name] for name in scene.arguments}  # type: ignore[misc]
