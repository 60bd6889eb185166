"""Versions of Python, PyTorch and the libraries around it, and the folders of libraries that come with them.

    versions.py
"""


def versions():
    import glob
    import importlib.metadata as metadata
    import platform

    facts = [["Python", platform.python_version()]]
    names = ["torch", "torchvision", "transformers", "numpy", "triton", "pytorch-triton-rocm", "cupy", "jax", "vllm"]
    for name in names:
        try:
            facts.append([name, metadata.version(name)])
        except metadata.PackageNotFoundError:
            pass
    folders = []
    for root in sys.path:
        for pattern in ("torch/lib", "nvidia/*/lib", "_rocm_sdk_*/lib"):
            folders += glob.glob(os.path.join(root, pattern))
    begin()
    end(facts=facts + [["folder", folder] for folder in folders])


versions()
