# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server of one file by HTTP, at a steady pace: what curl loads takes as long as a trial.

    files.py ADDRESS PORT FILE BYTES-A-SECOND

The pace is the server's: curl 7.88 with --limit-rate loads some files all at once. It knows no module of the lab, so that any
Python runs it.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

PAUSE_S = 0.05


async def main(address: str, port: int, file: Path, rate: int) -> None:
    """Serve until it is ended."""
    content = file.read_bytes()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode()
    step = max(1, int(rate * PAUSE_S))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            begun = asyncio.get_running_loop().time()
            for number, at in enumerate(range(0, len(content), step), 1):
                writer.write(content[at : at + step])
                await writer.drain()
                await asyncio.sleep(max(0.0, begun + number * PAUSE_S - asyncio.get_running_loop().time()))
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(answer, address, port, backlog=256) as server:
        print(f"serving {file}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])))
