"""Linear algebra: solves by structure, matrix functions, low rank, convolution as a matrix, image operators."""

from __future__ import annotations

from benthic.base.lazy import lazy

_EXPORTS = {
    "Compressed": "benthic.linalg.compression",
    "Diagonal": "benthic.linalg.structures",
    "LeastSquares": "benthic.linalg.minimum_norm",
    "LowRank": "benthic.linalg.structures",
    "MatrixFree": "benthic.linalg.low_rank",
    "PositiveDefinite": "benthic.linalg.structures",
    "SingularMatrix": "benthic.linalg.checks",
    "Structure": "benthic.linalg.structures",
    "Svd": "benthic.linalg.low_rank",
    "Toeplitz": "benthic.linalg.toeplitz",
    "Triangular": "benthic.linalg.structures",
    "cholesky": "benthic.linalg.factors",
    "compress": "benthic.linalg.compression",
    "condition": "benthic.linalg.solving",
    "convolution_matrix": "benthic.linalg.unrolled",
    "convolve": "benthic.linalg.convolution",
    "convolve_backward": "benthic.linalg.convolution",
    "correlate": "benthic.linalg.convolution",
    "correlate_backward": "benthic.linalg.convolution",
    "edge_kernel": "benthic.linalg.images",
    "edges": "benthic.linalg.images",
    "gaussian_blur": "benthic.linalg.images",
    "high_pass": "benthic.linalg.images",
    "image_gradient": "benthic.linalg.images",
    "image_laplacian": "benthic.linalg.images",
    "least_squares": "benthic.linalg.minimum_norm",
    "logdet": "benthic.linalg.solving",
    "low_pass": "benthic.linalg.images",
    "matrix_exp": "benthic.linalg.functions",
    "matrix_inverse_sqrt": "benthic.linalg.functions",
    "matrix_log": "benthic.linalg.functions",
    "matrix_sqrt": "benthic.linalg.functions",
    "morph": "benthic.linalg.morphing",
    "output_size": "benthic.linalg.geometry",
    "randomized_svd": "benthic.linalg.low_rank",
    "scatter_matrix": "benthic.linalg.scatter",
    "sharpen": "benthic.linalg.images",
    "signed_distance": "benthic.linalg.morphing",
    "solve": "benthic.linalg.solving",
    "transfer_function": "benthic.linalg.images",
    "truncated_svd": "benthic.linalg.low_rank",
}

__all__ = [*_EXPORTS]

__getattr__, __dir__ = lazy(__name__, _EXPORTS)
