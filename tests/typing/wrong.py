"""Wrong uses of numba_pool, each found by a type checker in its line. Never run; `test_types.py` has it checked."""

import numpy as np

import numba_pool as nb

x = np.ones((2, 3, 8, 8), np.float32)
signal = np.ones((3, 9), np.float32)
whole = np.ones((2, 3, 8, 8), np.int64)
waves = np.ones((2, 3, 8, 8), np.complex64)
y, indices = nb.max_pool2d(x, 2, return_indices=True)

nb.max_pool2d(x)  # wrong
nb.max_pool2d(x, "abc")  # wrong
nb.max_pool2d(x, 2.5)  # wrong
nb.max_pool2d(x, (2, 2, 2))  # wrong
nb.max_pool1d(signal, (2, 2))  # wrong
nb.max_pool2d(x, 2, padding="SAME")  # wrong
nb.max_pool1d(signal, 3, padding=(0, 1))  # wrong
nb.max_pool2d(x, 2, 2, 0, 1, False, False, None)  # wrong
nb.max_pool2d(x, 2, keepdims=True)  # wrong
nb.max_pool2d("images", 2)  # wrong
nb.max_pool2d(waves, 2)  # wrong
nb.max_pool2d(x > 0, 2)  # wrong
nb.min_pool2d(x, 2, out=[x])  # wrong
nb.max_pool2d(x, 2, return_indices=True, out=y)  # wrong
nb.max_pool2d(x, 2, out=(y, indices))  # wrong
nb.max_pool2d(x, 2).argmax_of  # wrong
nb.max_pool2d(x, 2, return_indices=True).shape  # wrong
nb.avg_pool2d(x, 2, return_indices=True)  # wrong
nb.avg_pool2d(x, 2, divisor_override="2")  # wrong
nb.sum_pool2d(x, 2, divisor_override=2)  # wrong
nb.lp_pool2d(whole, 2, 2)  # wrong
nb.lp_pool2d(x, "2", 2)  # wrong
nb.avg_pool2d_backward(whole, (2, 3, 8, 8), 2)  # wrong
nb.max_pool2d_backward(y, x.shape, indices)  # wrong
nb.max_pool2d_backward(y, y, x.shape)  # wrong
nb.adaptive_avg_pool2d(x, (1, 2, 3))  # wrong
nb.adaptive_max_pool2d(x, 1.5)  # wrong
nb.fractional_max_pool2d(x, 2, output_ratio="half")  # wrong
nb.max_unpool2d(y, indices, 2, padding="same")  # wrong
nb.global_avg_pool(x, 2)  # wrong
nb.max_pool2d(x, 2, channel_axis="last")  # wrong
nb.MaxPool2d("abc")  # wrong
nb.MaxPool2d(2, padding="SAME")  # wrong
nb.MaxPool2d(2, 2, 0, 1)  # wrong
nb.MaxPool2d(2, return_indices=True)(x).shape  # wrong
nb.MaxPool2d(2)(x).indices  # wrong
nb.MaxUnpool2d(2)(y)  # wrong
nb.LPPool2d(2)  # wrong
nb.GlobalAvgPool()(x, 1)  # wrong
nb.AvgPool2d(2).backward()  # wrong
nb.coarsen(x)  # wrong
nb.coarsen(x, 2, "mean", "trim")  # wrong
nb.coarsen(x, 2, keepdims=True)  # wrong
nb.coarsen(x, 2, rounding=1)  # wrong
nb.coarsen(x, 2, min_count="two")  # wrong
nb.coarsen(x, 2, out=[x])  # wrong
nb.pyramid(x, 2, "three")  # wrong
nb.pyramid(x, 2, 3, "mean", "short")  # wrong
nb.pyramid(x).shape  # wrong
nb.pyramid_block(x)  # wrong
nb.pyramid_regions(100)  # wrong
nb.reducers.nanmid(x)  # wrong
nb.max_pool4d(x, 2)  # wrong
nb.set_num_threads("all")  # wrong
nb.warmup(x, progres=True)  # wrong
nb.show_config("json")  # wrong
