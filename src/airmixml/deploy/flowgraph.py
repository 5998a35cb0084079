"""GNU Radio in the middle: one ZeroMQ input for each worker -> add -> one ZeroMQ output.

A script for the system's Python, which has GNU Radio's packages; nothing of airmixml is imported. It is given the
folder of the sockets (in-0, in-1, ..., and out) and the number of inputs. All sockets push and pull: publish and
subscribe lose samples. It prints ``ready`` when samples can be sent, and runs until it is ended.
"""

import sys
import time

from gnuradio import blocks, gr, zeromq

_WAIT_MILLISECONDS = 10


def main(folder: str, inputs: int) -> None:
    """Build the flowgraph and run it."""
    graph, total, size = gr.top_block(), blocks.add_cc(1), gr.sizeof_gr_complex
    for number in range(inputs):
        address = f"ipc://{folder}/in-{number}"
        graph.connect(zeromq.pull_source(size, 1, address, _WAIT_MILLISECONDS, False, -1), (total, number))
    graph.connect(total, zeromq.push_sink(size, 1, f"ipc://{folder}/out", _WAIT_MILLISECONDS, False, -1))
    graph.start()
    print("ready", flush=True)
    while True:
        time.sleep(3600.0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
