"""A process with the shim, and without a controller: what is refused, and what the shim knows."""

from __future__ import annotations

import datetime
import threading
import unittest

import xsched
from xsched._domains import thread_domain


class WithShim(unittest.TestCase):
    def test_the_status_follows_the_contexts(self) -> None:
        before = xsched.status()
        self.assertEqual((before.priority, before.deadline, before.domain), (None, None, "auto"))
        self.assertIsNone(before.granted)
        with xsched.priority("low"), xsched.deadline(datetime.timedelta(milliseconds=33)), xsched.domain("system"):
            within = xsched.status()
            self.assertEqual((within.priority, within.deadline, within.domain), (-100, 0.033, "system"))
        self.assertEqual(xsched.status(), before)

    def test_a_domain_is_its_threads(self) -> None:
        def elsewhere() -> None:
            seen.append(thread_domain())
            with xsched.domain("application"):
                seen.append(thread_domain())
            try:
                context.__exit__(None, None, None)
            except RuntimeError as error:
                seen.append(str(error))

        seen: list[str] = []
        context = xsched.domain("system")
        with context, xsched.domain("application"):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            self.assertEqual(thread_domain(), "application")
        self.assertEqual(thread_domain(), "auto")
        self.assertEqual(seen[:2], ["auto", "application"])
        self.assertIn("it ends in the thread that has entered it", seen[2])

    def test_a_coroutine_function_gets_no_domain(self) -> None:
        async def exchange() -> None:
            pass

        with self.assertRaisesRegex(TypeError, "exchange is a coroutine function: a domain is the thread's"):
            xsched.domain("system")(exchange)

    def test_what_is_no_stream_is_refused(self) -> None:
        with self.assertRaisesRegex(xsched.XschedError, "0x3039 is no stream"):
            xsched.priority("low", stream=12345).__enter__()
        for stream in (True, "stream", object()):
            with self.assertRaisesRegex(TypeError, "a stream is a torch.cuda.Stream or a handle"):
                xsched.deadline(1, stream=stream)  # type: ignore[arg-type]

    def test_what_is_no_value_is_refused_where_it_is_written(self) -> None:
        for level in (256, -256, "hihg", ""):
            with self.assertRaises(ValueError):
                xsched.priority(level)
        for within in (0, -1, 1e9, float("inf"), float("nan"), 1e-9):
            with self.assertRaises(ValueError):
                xsched.deadline(within)
        with self.assertRaises(ValueError):
            xsched.domain("systme")  # type: ignore[arg-type]
        for wrong in (True, None, 1.5):
            with self.assertRaises(TypeError):
                xsched.priority(wrong)  # type: ignore[arg-type]
        for odd in (True, None, "1"):
            with self.assertRaises(TypeError):
                xsched.deadline(odd)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
