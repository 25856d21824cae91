"""What happens beside the training itself: metrics, progress, checkpoints."""

from hpcdl.hooks.checkpoints import Checkpoints
from hpcdl.hooks.metrics import Metrics
from hpcdl.hooks.preemption import Preemption
from hpcdl.hooks.progress import Progress

__all__ = ["Checkpoints", "Metrics", "Preemption", "Progress"]
