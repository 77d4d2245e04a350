"""DataLoader's workers are forked while a thread holds a lock that the dataset takes."""
# expect: hang
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

lock = threading.Lock()


def holder():
    with lock:
        time.sleep(1.5)


class Data(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        with lock:  # here
            return torch.ones(2)


threading.Thread(target=holder, daemon=True).start()
time.sleep(0.2)
print("stall", flush=True)
for batch in DataLoader(Data(), num_workers=2, batch_size=4):
    pass
