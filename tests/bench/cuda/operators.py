"""PyTorch's operators on its own samples (`op_db`, which PyTorch's tests use): a checksum of each operator's results.

    operators.py run FILE [SECONDS [TIMES]]   at most so long, each operator so often; forward, and backward where there is one
    operators.py compare NATIVE NATIVE OURS   says which operators differ in OURS, of those that were the same each time natively

Some operators add by atomic operations, in any order: `grid_sample` has three results natively. So a native run asks each several times.
"""

import hashlib
import json
import sys
import time
import types


def compare(files):
    first, second, ours = [json.load(open(file)) for file in files]
    same = [name for name in first if len(first[name]) == 1 and first[name] == second.get(name) and name in ours]
    worked = [name for name in same if not first[name][0].startswith("error")]
    different = [name for name in same if first[name] != ours[name]]
    print(f"operators: {len(same)} of {len(first)} the same each time natively, {len(worked)} of them without an error; {len(different)} differ with ours")
    for name in different:
        print("  ", name, first[name], ours[name])
    sys.exit(bool(different) or not worked)


def run(file, seconds, times):
    import torch

    # PyTorch's test utilities import it; nothing of it is used here.
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=object, assert_expected_inline=None))
    from torch.testing._internal.common_methods_invocations import op_db

    def tensors(value):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for part in value:
                yield from tensors(part)

    def checksum(operator):
        hashed = hashlib.sha256()
        backward = operator.supports_autograd
        for count, sample in enumerate(operator.sample_inputs("cuda", torch.float32, requires_grad=backward)):
            if count == 3:
                break
            torch.manual_seed(0)
            results = list(tensors(operator.op(sample.input, *sample.args, **sample.kwargs)))
            differentiable = [result for result in results if result.requires_grad and result.is_floating_point()]
            if backward and differentiable:
                sum(result.sum() for result in differentiable).backward()
                results += [value.grad for value in tensors([sample.input, *sample.args]) if value.grad is not None]
            for result in results:
                hashed.update(result.detach().resolve_conj().resolve_neg().cpu().contiguous().numpy().tobytes())
        return hashed.hexdigest()[:12]

    sums, end = {}, time.time() + seconds
    for operator in op_db:
        if time.time() > end:
            break
        # Memory that no one has written has whatever an earlier operator left there.
        if torch.float32 not in operator.supported_dtypes("cuda") or "empty" in operator.name:
            continue
        name = operator.formatted_name
        found = set()
        for _ in range(times):
            # The samples are drawn at random.
            torch.manual_seed(0)
            try:
                found.add(checksum(operator))
            except Exception as error:
                found.add(f"error {type(error).__name__}")
        sums[name] = sorted(found)
    torch.cuda.synchronize()
    json.dump(sums, open(file, "w"))
    print(f"{len(sums)} operators in {seconds - (end - time.time()):.0f} s")


if sys.argv[1] == "compare":
    compare(sys.argv[2:5])
else:
    run(sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 600, int(sys.argv[4]) if len(sys.argv) > 4 else 1)
