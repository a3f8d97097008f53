"""Data: rows in memory or elsewhere, plans that draw minibatches from them, and data sets by name."""

from isotherm.data.plans import AllRows as AllRows
from isotherm.data.plans import MinibatchPlan as MinibatchPlan
from isotherm.data.plans import Reshuffled as Reshuffled
from isotherm.data.plans import WithoutReplacement as WithoutReplacement
from isotherm.data.plans import WithReplacement as WithReplacement
from isotherm.data.random_blocks import RandomBlocks as RandomBlocks
from isotherm.data.rows import as_rows as as_rows
from isotherm.data.sets.load import DataSet as DataSet
from isotherm.data.sets.load import load as load
from isotherm.data.sources.arrays import arrays as arrays
from isotherm.data.sources.base import Source as Source
from isotherm.data.sources.generated import generated as generated
from isotherm.data.sources.npy import npy as npy
from isotherm.data.sources.parquet import parquet as parquet
from isotherm.data.sources.zarr import zarr as zarr
from isotherm.data.sparse import sparse_dot as sparse_dot
from isotherm.data.sparse import sparse_rows as sparse_rows
from isotherm.data.weighted import Weighted as Weighted
