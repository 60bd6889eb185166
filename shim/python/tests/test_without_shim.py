"""A process without a shim."""

from __future__ import annotations

import sys
import unittest

import xsched
from xsched._shim import _mapped
from xsched._status import _of_list


class WithoutShim(unittest.TestCase):
    def test_the_error_names_both_ways_to_load_it(self) -> None:
        for use in (
            xsched.status,
            lambda: xsched.priority(5).__enter__(),
            lambda: xsched.priority("high"),
            lambda: xsched.deadline(0.01).__enter__(),
            lambda: xsched.domain("system").__enter__(),
        ):
            with self.assertRaises(xsched.ShimMissing) as caught:
                use()
            said = str(caught.exception)
            self.assertIn("xsched-ctl run", said)
            self.assertIn("LD_PRELOAD", said)

    def test_torch_is_not_imported(self) -> None:
        self.assertNotIn("torch", sys.modules)

    def test_shims_are_found_in_a_map_of_memory(self) -> None:
        maps = (
            "7f00-7f10 r-xp 00000000 fe:01 7    /opt/my libs/libxsched_shim.so\n"
            "7f10-7f20 r--p 00001000 fe:01 7    /opt/my libs/libxsched_shim.so\n"
            "7f20-7f30 r--p 00001000 fe:01 8    /usr/lib/libxsched_cuda.so (deleted)\n"
            "7f30-7f40 r--p 00001000 fe:01 9    /usr/lib/libxsched_shim.txt\n"
            "7f40-7f50 rw-p 00000000 00:00 0\n"
        )
        self.assertEqual(_mapped(maps), ["/opt/my libs/libxsched_shim.so", "/usr/lib/libxsched_cuda.so"])

    def test_a_list_without_the_process_grants_nothing(self) -> None:
        self.assertIsNone(_of_list({"answer": "refused"}, 7))


if __name__ == "__main__":
    unittest.main()
