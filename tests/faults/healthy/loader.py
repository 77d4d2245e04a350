"""A data loader with workers."""
# expect: healthy
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __len__(self):
        return 100000

    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.ones(16)


if __name__ == "__main__":
    print("stall", flush=True)
    for batch in DataLoader(Data(), batch_size=16, num_workers=2):
        batch.sum()
