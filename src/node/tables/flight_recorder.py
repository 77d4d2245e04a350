# For python.flight_recorder: what torch has noted of its collectives, one JSON text a line for each
# recorder that this torch has.
import sys

module = sys.modules.get('torch._C._distributed_c10d')
for name in '_dump_nccl_trace_json', '_dump_fr_trace_json':
    if hasattr(module, name):
        text = getattr(module, name)(True, False)
        print((text if isinstance(text, str) else text.decode()).replace('\n', ' '))
