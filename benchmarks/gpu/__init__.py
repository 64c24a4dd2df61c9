"""What is measured on an accelerator; needs only torch, numpy, scipy, scikit-learn, numba and safetensors."""
