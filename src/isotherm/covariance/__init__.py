"""Running estimates of C, the covariance of the noisy force, one kind per file."""

from isotherm.covariance.base import Average as Average
from isotherm.covariance.base import Covariance as Covariance
from isotherm.covariance.base import Operator as Operator
from isotherm.covariance.dense import Dense as Dense
from isotherm.covariance.diagonal import Diagonal as Diagonal
from isotherm.covariance.low_rank import DiagonalLowRank as DiagonalLowRank
from isotherm.covariance.matrix_free import MatrixFree as MatrixFree
