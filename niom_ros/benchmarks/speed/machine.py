"""The machine on which times were measured."""

import os
from pathlib import Path
import platform
from typing import Any

import torch

from niom_ros.benchmarks.versions import versions
from niom_ros.core.settings import choose_device, Settings

BUSY = 0.5  # load per core before the start, above which the machine counts as busy


def machine(settings: Settings) -> dict[str, Any]:
    """Return what times depend on, ready for JSON."""
    return {
        'cpu': cpu_model(),
        'cores': len(os.sched_getaffinity(0)),
        'threads': torch.get_num_threads(),
        'device': choose_device(settings.device).type,
        'load_before': os.getloadavg()[0],
        'system': platform.platform(),
        'versions': versions(),
    }


def cpu_model() -> str:
    """Return the name of the processor, as Linux reports it."""
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(':')[2].strip() for line in lines if line.startswith('model name'))
    return next(named, platform.processor() or platform.machine())


def why_not_idle(about: dict[str, Any]) -> str:
    """Return a warning if other programs use the machine too, else ''."""
    load, cores = about['load_before'], about['cores']
    if load <= BUSY * cores:
        return ''
    return (
        f'the machine is busy (load {load:.1f} on {cores} cores): all times are too long, and '
        'ratios less certain'
    )
