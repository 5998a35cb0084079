"""GNU Radio in the middle: one ZeroMQ input for each worker -> add -> channel model -> one ZeroMQ output.

A script for the system's Python, which has GNU Radio's packages; nothing of airmixml is imported. All sockets push and
pull: publish and subscribe lose samples. It prints ``ready`` when samples can be sent, and runs until it is ended.
"""

import argparse
import time

from gnuradio import blocks, channels, gr, zeromq

_WAIT_MILLISECONDS = 10


def main() -> None:
    """Build the flowgraph and run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="of the sockets: in-0, in-1, ..., and out")
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--noise-volts", type=float, default=0.0)
    parser.add_argument("--frequency-offset", type=float, default=0.0, help="in cycles per sample")
    parser.add_argument("--taps", type=complex, nargs="+", default=[1.0])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    graph, total, size = gr.top_block(), blocks.add_cc(1), gr.sizeof_gr_complex
    for number in range(given.inputs):
        address = f"ipc://{given.folder}/in-{number}"
        graph.connect(zeromq.pull_source(size, 1, address, _WAIT_MILLISECONDS, False, -1), (total, number))
    channel = channels.channel_model(
        given.noise_volts, given.frequency_offset, 1.0, given.taps, given.seed, block_tags=True
    )
    output = zeromq.push_sink(size, 1, f"ipc://{given.folder}/out", _WAIT_MILLISECONDS, False, -1)
    graph.connect(total, channel, output)
    graph.start()
    print("ready", flush=True)
    while True:
        time.sleep(3600.0)


if __name__ == "__main__":
    main()
