"""More memory than its control group may have: the kernel kills it."""
# expect: crash
# class: out of memory
# line: none
# probes: yes
# needs: root
import os

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
two = os.path.exists(V2 + "/cgroup.controllers")
group = (V2 if two else V1) + "/probing-fault-%d" % os.getpid()
os.mkdir(group)


def put(name, value):
    with open(os.path.join(group, name), "w") as f:
        f.write(value)


put("memory.max" if two else "memory.limit_in_bytes", str(200 << 20))
put("cgroup.procs", str(os.getpid()))
print("stall", flush=True)
os.read(0, 1)
kept = []
while True:
    kept.append(bytearray(10 << 20))
