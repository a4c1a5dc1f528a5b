"""Priors on binary feature matrices, on partitions and on grouped ones, each a table of potentials
(one file a prior)."""

from thali.priors.base import PredictsRow, Sequential, Truncates
from thali.priors.beta_bernoulli import BetaBernoulli
from thali.priors.flexible_ibp import FlexibleIBP
from thali.priors.flexible_partition import FlexiblePartition
from thali.priors.hierarchical_dirichlet_process import HierarchicalDirichletProcess
from thali.priors.hierarchical_flexible import HierarchicalFlexible
from thali.priors.ibp import IBP
from thali.priors.learned_ibp import LearnedIBP
from thali.priors.learned_partition import LearnedPartition
from thali.priors.pitman_yor import DirichletProcess, PitmanYor
from thali.priors.smooth_ibp import SmoothIBP
from thali.priors.smooth_partition import SmoothPartition
from thali.priors.truncated_ibp import TruncatedIBP
from thali.priors.two_parameter_ibp import TwoParameterIBP
from thali.registry import import_family

import_family(__name__, __path__)

__all__ = ["IBP", "BetaBernoulli", "DirichletProcess", "FlexiblePartition", "PitmanYor"]
__all__ += ["FlexibleIBP", "LearnedIBP", "LearnedPartition", "SmoothIBP", "SmoothPartition"]
__all__ += ["PredictsRow", "Sequential", "TruncatedIBP", "Truncates", "TwoParameterIBP"]
__all__ += ["HierarchicalDirichletProcess", "HierarchicalFlexible"]
