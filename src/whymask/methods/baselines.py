"""The baselines as a list; importing it imports torch."""

from whymask.baselines.asn import asn
from whymask.baselines.eagle import eagle_efficient
from whymask.baselines.grad_cam import grad_cam
from whymask.baselines.grad_eclip import grad_eclip
from whymask.baselines.gradient import gradient
from whymask.baselines.hsic import hsic
from whymask.baselines.ig2 import ig2
from whymask.baselines.igos import igos_pp
from whymask.baselines.integrated_gradients import integrated_gradients
from whymask.baselines.kernelshap import kernelshap
from whymask.baselines.lima import lima_bidirectional
from whymask.baselines.lime import lime
from whymask.baselines.llava_cam import llava_cam
from whymask.baselines.occlusion import occlusion
from whymask.baselines.rise import rise
from whymask.search.stage import AnyStage

BASELINES: tuple[AnyStage, ...] = (
    asn, eagle_efficient, lima_bidirectional, rise, hsic, occlusion, lime, kernelshap, gradient, integrated_gradients,
    ig2, igos_pp, grad_cam, grad_eclip, llava_cam,
)  # fmt: skip
