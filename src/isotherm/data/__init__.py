"""Data: rows in memory, the plans that draw minibatches from them, and data sets by name."""

from isotherm.data.datasets import DataSet as DataSet
from isotherm.data.datasets import load as load
from isotherm.data.minibatch import AllRows as AllRows
from isotherm.data.minibatch import MinibatchPlan as MinibatchPlan
from isotherm.data.minibatch import RandomBlocks as RandomBlocks
from isotherm.data.minibatch import Reshuffled as Reshuffled
from isotherm.data.minibatch import WithoutReplacement as WithoutReplacement
from isotherm.data.minibatch import WithReplacement as WithReplacement
from isotherm.data.rows import as_rows as as_rows
from isotherm.data.sparse import sparse_dot as sparse_dot
from isotherm.data.sparse import sparse_rows as sparse_rows
