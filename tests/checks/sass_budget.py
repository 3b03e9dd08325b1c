"""Budgets of the hot CUDA kernels, for sm_90: registers, spills, stack, bytes of parameters,
16-byte loads and stores, and instructions per element.

Instructions per element: the number of SASS instructions on the longest way through a kernel,
divided by the elements of that way. A way follows no branch back, so each loop counts once, and it
calls no function: calls lead to the slow forms of strided and short runs. Branches of diverged
warps (BRA.DIV) are not taken. The way of a kernel whose threads loop over runs of elements is that
through the body of its longest loop with loads; of others that from the entry to the end.

For a kernel that holds a row in registers, that is the work of a thread all of whose packs are
full, with the branches that only rows of several chunks take: it executes at most this many.

An H100 executes 30.9e12 instructions of threads per second and moves 4.3e12 bytes (copies of bf16
to bf16): a kernel that loads and stores 4 bytes per element has 29 instructions for it.

The machine code is that of the build's objects. Without nvdisasm (see tests/run.sh) only resources
are checked, and the check counts as skipped, also with CI=true: no package of Debian has nvdisasm,
and a package index may be out of reach. Without machine code for sm_90 it is skipped.

Usage: sass_budget.py BUILD_DIR NVCC   (nvdisasm may be in BUILD_DIR/disassembler)
       sass_budget.py --measured       prints FILE=OPS for each file with budgets
"""
import os
import re
import shutil
import struct
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from check import in_parallel, must, run, skip, verdict


class Budget(NamedTuple):
    """Ceilings of one kernel; all instances whose demangled names match the pattern have them."""
    kernel: str
    registers: int
    per_element: float
    elements: int  # on the counted way
    loads: int  # at least this many LDG of `bits` on that way
    stores: int
    bits: int = 128
    loop: bool = False  # count the body of the longest loop with such loads


class TensorBudget(NamedTuple):
    """Ceilings of a kernel that multiplies on Tensor Cores in a loop of steps."""
    kernel: str
    registers: int
    shared: int  # bytes
    per_step: int  # instructions of a thread on the longest way through a step
    products: int  # HMMA on that way, at least
    matrix_loads: int = 0  # LDSM on that way, at least; then the step has no generic LD
    stack: int = 0  # bytes; of slow forms
    early_loads: int = 0  # of 16 bytes, on that way before its first HMMA, at least


class ProductBudget(NamedTuple):
    """Ceilings of a kernel that multiplies tiles of f32 in shared memory, in loops over terms in a
    loop of steps."""
    kernel: str
    registers: int
    per_product: float  # instructions per FFMA in each loop over terms
    loops: int  # over terms, at least
    per_step: int  # instructions on the longest way through a step, each loop over terms once
    stack: int = 0  # bytes; of slow forms


class Stackless(NamedTuple):
    """Kernels without a stack."""
    kernel: str


BUDGETS = {
    'elementwise_activation': [
        # as of Add and Mul below: contiguous operands take a shorter way
        Budget(r'forward_packs_kernel<mezzo::op::Relu>', 32, 23, 8, 2, 1),
        Budget(r'gradient_packs_kernel<mezzo::op::Relu>', 32, 40, 8, 4, 2),
        Budget(r'forward_low_packs_kernel<mezzo::op::Gelu, .*Half>', 40, 36, 8, 1, 1),
        Budget(r'forward_low_packs_kernel<mezzo::op::Gelu, .*BFloat16>', 40, 29, 8, 1, 1),
        Budget(r'forward_low_packs_kernel<mezzo::op::(Sigmoid|Silu), .*BFloat16>', 40, 19, 8, 1, 1),
        Budget(r'forward_low_packs_kernel<mezzo::op::Tanh, .*BFloat16>', 40, 17, 8, 1, 1),
        # 6 bytes per element, for which an H100 has 43 instructions; of the tanh form, the other
        # has 41
        Budget(r'gradient_low_packs_kernel<mezzo::op::Gelu, .*>', 40, 49, 8, 2, 1),
        Budget(r'gradient_low_packs_kernel<mezzo::op::Silu, .*BFloat16>', 40, 34, 8, 2, 1),
        # without the tables, for which a thread has 8 entries in bf16 and 32 in f16
        Budget(r'forward_table_kernel<mezzo::op::Gelu, .*>', 64, 9, 32, 4, 4, loop=True),
        Budget(r'gradient_table_kernel<mezzo::op::Gelu, .*>', 64, 12, 16, 4, 2, loop=True),
        Budget(r'gradient_low_packs_kernel<mezzo::op::(Sigmoid|Tanh), .*BFloat16>', 40, 9, 8, 2, 1),
    ],
    'elementwise_arithmetic': [
        # runs of 4: 8-byte loads and stores in 16 bits
        Budget(r'forward_kernel<mezzo::op::Add, float>', 80, 34, 4, 2, 1, 64, True),
        Budget(r'forward_kernel<mezzo::op::Mul, float>', 80, 33, 4, 2, 1, 64, True),
        # of f32, which needs two loads for an operand of 8 elements. The counted way finds the
        # places of broadcast operands of any rank, in gradients for each result; that of
        # contiguous operands has 19 per element for Add
        Budget(r'forward_packs_kernel<mezzo::op::(Add|Mul)>', 32, 33, 8, 4, 1),
        Budget(r'gradient_packs_kernel<mezzo::op::Add>', 32, 39, 8, 2, 2),
        # 10 bytes per element, for which an H100 has 72 instructions
        Budget(r'gradient_packs_kernel<mezzo::op::Mul>', 48, 61, 8, 6, 4),
    ],
    'elementwise_compare': [Budget(r'forward_packs_kernel<mezzo::op::Gt>', 32, 33, 8, 4, 0)],
    'elementwise_functions': [
        Budget(r'forward_low_packs_kernel<mezzo::op::Exp, .*BFloat16>', 40, 14, 8, 1, 1),
        Budget(r'forward_low_packs_kernel<mezzo::op::Log, .*BFloat16>', 40, 20, 8, 1, 1),
        Budget(r'gradient_low_packs_kernel<mezzo::op::Exp, .*BFloat16>', 40, 7, 8, 2, 1),
        Budget(r'gradient_low_packs_kernel<mezzo::op::Log, .*BFloat16>', 40, 16, 8, 2, 1),
    ],
    # 8192 FFMA of 64 x 64 scores and rows of 64 elements need 0.16 us of an H200's multiprocessor.
    # The loops have 12 shared loads of 16 bytes per 128 FFMA. A step has 4096 FFMA, for dq 6144,
    # for dk and dv 8192; the counted way has masks, dropout and rows that are no quads
    'attention_quads': [ProductBudget(r'attention_kernel', 168, 1.13, 2, 2300, 16)],
    'attention_quads_backward': [
        ProductBudget(r'gradients_kernel', 255, 1.13, 7, 3400, 16),
        # of g and y, for 8 bytes: 42; the counted way has rows that are no quads
        Budget(r'offsets_kernel', 64, 70, 16, 0, 0),
    ],
    # a step is a tile of keys, or of queries; rows of up to 64 and of up to 128. The counted way
    # has the arithmetic of masks and dropout
    'attention_tensor': [
        TensorBudget(r'attention_kernel<.*, 64>', 168, 46080, 3200, 104, 53, 16),
        TensorBudget(r'attention_kernel<.*, 128>', 168, 46080, 2080, 60, 31, 16),
    ],
    'attention_tensor_backward': [
        TensorBudget(r'gradients_kernel<mezzo::BFloat16, 64>', 168, 47104, 2900, 152, 78, 16),
        TensorBudget(r'gradients_kernel<mezzo::Half, 64>', 168, 47104, 3200, 152, 78, 24),
        TensorBudget(r'gradients_kernel<.*, 128>', 168, 46080, 2600, 220, 160, 32),
    ],
    'elementwise_selection': [
        Budget(r'forward_packs_kernel<mezzo::op::Where>', 40, 42, 8, 6, 1),
    ],
    # for a score; the way of rows that begin within a block of random numbers
    'attention_masks': [Budget(r'kept_kernel', 40, 36, 8, 0, 1)],
    'batch_norm': [  # forward 43, backward 72
        Budget(r'packed_moments_kernel<mezzo::BFloat16', 80, 14, 32, 4, 0, loop=True),
        Budget(r'packed_normalise_kernel<mezzo::BFloat16', 80, 29, 32, 4, 4, loop=True),
        # The counted way adds two gradients and gates them by relu's result. An H200 has 61
        # instructions for its 10 bytes, then 37 for 6 (3.7 TB/s, 22.8e12 per second).
        Budget(r'packed_gradient_sums_kernel<mezzo::BFloat16', 128, 18, 16, 8, 2, loop=True),
        Budget(r'packed_norm_gradient_kernel<mezzo::BFloat16', 128, 18, 16, 4, 2, loop=True),
        # row-major; "whole": one launch; of positions that are multiples of 8, then of 4
        Budget(r'packed_run_moments_kernel<mezzo::BFloat16, 8>', 64, 14, 16, 2, 0, loop=True),
        Budget(r'packed_(run|whole)_norm_kernel<mezzo::BFloat16, 8>', 64, 29, 16, 4, 2, loop=True),
        Budget(r'packed_run_sums_kernel<mezzo::BFloat16, 8, false>', 64, 25, 16, 8, 2, loop=True),
        Budget(r'packed_run_gradient_kernel<mezzo::BFloat16, 8, false>', 64, 25, 16, 4, 2, loop=True),
        Budget(r'packed_whole_gradient_kernel<mezzo::BFloat16, 8, false>', 64, 29, 8, 2, 1, loop=True),
        Budget(r'packed_run_moments_kernel<mezzo::BFloat16, 4>', 64, 20, 16, 4, 0, 64, True),
        Budget(r'packed_(run|whole)_norm_kernel<mezzo::BFloat16, 4>', 64, 29, 16, 8, 4, 64, True),
        Budget(r'packed_run_sums_kernel<mezzo::BFloat16, 4, false>', 64, 33, 16, 16, 4, 64, True),
        Budget(r'packed_run_gradient_kernel<mezzo::BFloat16, 4, false>', 64, 33, 16, 8, 4, 64, True),
        Budget(r'packed_whole_gradient_kernel<mezzo::BFloat16, 4, false>', 64, 36, 8, 4, 2, 64, True),
        # with the gradient of the maxima of windows instead, loaded one by one; its gate follows
        # from x. An H200 has 27 instructions for the 4.4 bytes of the sums, and 39 for the 6.4 of
        # the gradient.
        Budget(r'packed_run_sums_kernel<mezzo::BFloat16, 8, true>', 64, 27, 16, 2, 0, loop=True),
        Budget(r'packed_run_gradient_kernel<mezzo::BFloat16, 8, true>', 64, 32, 16, 2, 2,
               loop=True),
        Budget(r'packed_whole_gradient_kernel<mezzo::BFloat16, 8, true>', 64, 33, 8, 1, 1,
               loop=True),
        Budget(r'packed_run_sums_kernel<mezzo::BFloat16, 4, true>', 64, 35, 16, 4, 0, 64, True),
        Budget(r'packed_run_gradient_kernel<mezzo::BFloat16, 4, true>', 64, 39, 16, 4, 4, 64,
               True),
    ],
    'copy': [
        Budget(r'copy_packs_kernel', 24, 26, 8, 2, 0),  # with the places of broadcast operands
        # the counted way is that to f16, which rounds in integers
        Budget(r'convert_kernel<int>', 40, 55, 16, 4, 0),
        Budget(r'fill_kernel', 24, 2, 32, 0, 4),  # of 16 bits
        # tiles, whose elements are loaded and stored one by one; "false": lines of more than 256
        Budget(r'transpose_kernel<WordCopy<unsigned (short|char)>, true>', 48, 29, 16, 0, 0),
        Budget(r'transpose_kernel<WordCopy<unsigned (short|char)>, false>', 48, 58, 16, 0, 0),
    ],
    'cross_entropy': [
        Budget(r'packed_loss_kernel<mezzo::BFloat16, mezzo::BFloat16>', 48, 29, 32, 4, 0),
        Budget(r'packed_gradient_kernel<mezzo::BFloat16, mezzo::BFloat16', 48, 29, 32, 4, 4),
        # of 16 bits with the bits of f32: packs of 4 elements. The counted way has label smoothing
        # and the joins of a team, for one chunk of 16 elements per thread
        Budget(r'packed_loss_kernel<mezzo::(Half|BFloat16), float>', 48, 60, 16, 4, 0, 64),
        Budget(r'packed_gradient_kernel<mezzo::(Half|BFloat16), float, mezzo::', 48, 36, 16, 4, 4,
               64),
    ],
    # 6 bytes per element in 16 bits, for which an H200 has 37 instructions
    'gated_sums': [
        Budget(r'gated_column_sum_kernel<mezzo::op::Relu, mezzo', 64, 20, 32, 8, 4, loop=True),
        Budget(r'gated_column_sum_kernel<mezzo::op::Relu, float', 64, 29, 16, 8, 4, loop=True),
        Budget(r'gated_column_sum_kernel<mezzo::op::Gelu, mezzo', 128, 60, 32, 8, 4, loop=True),
        Budget(r'gated_table_sum_kernel<mezzo::op::Gelu>', 72, 17, 32, 8, 4, loop=True),
    ],
    # the statistics as in batch_norm
    'group_norm': [
        Budget(r'packed_run_norm_kernel<mezzo::BFloat16, 8>', 64, 29, 16, 4, 2, loop=True),
        Budget(r'packed_run_gradient_kernel<mezzo::BFloat16, 8, false>', 64, 43, 16, 4, 2, loop=True),
    ],
    # marks of elements of 1 byte, for 1.2 bytes of memory, and of 4 bytes. Then marked elements:
    # in 16 bits, if half are, for 3.1 bytes
    'index_positions': [
        Budget(r'mark_kernel<unsigned char>', 48, 7, 32, 2, 0),
        Budget(r'mark_kernel<unsigned int>', 64, 14, 32, 8, 0),
        Budget(r'values_kernel<unsigned (short|int), true>', 48, 18, 32, 0, 0),
    ],
    # of 16 bits; a thread copies four words of 16 bytes, on the counted way one of 8
    # arrays that must be in registers: the driver reserves the stack of all threads of a GPU
    'grid_sample': [Stackless(r'.*')],
    'join': [Budget(r'join_kernel', 40, 10, 32, 3, 3)],
    'layer_norm': [
        Budget(r'packed_norm_kernel<mezzo::BFloat16, .*, true, void>', 64, 28, 32, 4, 4),
        Budget(r'packed_norm_kernel<mezzo::BFloat16, .*, false, void>', 56, 19, 32, 4, 4),  # rms
        # of a sum: 58 for its 8 bytes
        Budget(r'packed_norm_kernel<mezzo::BFloat16, .*, true, mezzo::BFloat16>', 64, 34, 32, 8, 8),
        # of rows that it looks up and a branch that repeats
        Budget(r'packed_norm_kernel<mezzo::BFloat16, .*, true, Repeated', 64, 38, 32, 8, 8),
        # of f32 and a 16-bit branch: 101 for its 14 bytes
        Budget(r'packed_norm_kernel<float, float, true, mezzo::BFloat16>', 48, 46, 16, 4, 8),
    ],
    'layer_norm_backward': [  # also of rms_norm, which has the same kernel
        Budget(r'packed_backward_kernel<mezzo::BFloat16, .*, false, .*>', 128, 37, 32, 8, 4,
               loop=True),
        Budget(r'packed_backward_kernel<mezzo::BFloat16, .*, true, .*>', 128, 42, 32, 8, 4,
               loop=True),
        # of f32 with a 16-bit gradient, which also writes one: 116 for its 16 bytes
        Budget(r'packed_backward_kernel<float, float, true, mezzo::BFloat16>', 96, 54, 16, 4, 4,
               loop=True),
    ],
    # eight loads of 16 bits and a store of 16 bytes, of which a quarter comes from memory
    'conv_columns': [Budget(r'windows_kernel', 32, 12, 8, 0, 1)],
    # a x + b y in 16 bits has 43; the counted way also writes down a non-finite element. Whole
    # chunks of a check or a norm are loaded before this loop, with four loads in flight
    'lists': [
        Budget(r'axpby_kernel<float, .*>', 64, 41, 4, 2, 1, 64, True),
        Budget(r'partial_norm_kernel<float, .*>', 56, 34, 4, 1, 0, 64, True),
    ],
    'pool': [
        # for each element of a window, of which the loop takes three
        Budget(r'plane_max_kernel<mezzo::BFloat16, 8, unsigned char>', 64, 8, 24, 3, 0, loop=True),
        # for each window of an element
        Budget(r'plane_max_backward_kernel<mezzo::BFloat16, 8, unsigned char>', 48, 26, 8, 1, 0,
               loop=True),
        Budget(r'plane_max_backward_kernel<mezzo::BFloat16, 8, long>', 48, 20, 8, 2, 0, loop=True),
        # for each of four windows of four elements, with the parts of a row
        Budget(r'pair_max_kernel<mezzo::BFloat16>', 40, 60, 4, 0, 0),
        Budget(r'pair_max_backward_kernel<mezzo::BFloat16>', 40, 45, 4, 0, 0),
    ],
    'random': [
        # with the places of views; f32 has 47 for its 9 bytes
        Budget(r'packed_dropout_kernel', 32, 47, 8, 2, 1),
        Budget(r'typed_packed_dropout_kernel', 40, 26, 8, 1, 1),
    ],
    # for LSTMs of up to 512 and of up to 1024 units, others. The counted way also stores and loads
    # other tiles and padded sequences; a step of one tile has half of the loads. One block runs on
    # a multiprocessor, so registers cost nothing
    'recurrent_persistent': [
        TensorBudget(r'persistent_forward_kernel<.*, 4, 4>', 168, 47104, 665, 32, early_loads=8),
        TensorBudget(r'persistent_forward_kernel<.*, 4, 8>', 248, 47104, 720, 64, early_loads=16),
        TensorBudget(r'persistent_forward_kernel<.*, [13], \d>', 232, 32768, 600, 8, early_loads=8),
    ],
    # shared memory is an argument of the launch
    'recurrent_persistent_backward': [
        TensorBudget(r'persistent_backward_kernel<.*, 4, 4, 2>', 255, 0, 1340, 64, early_loads=32),
        TensorBudget(r'persistent_backward_kernel<.*, 4, 8, 1>', 255, 0, 1110, 64, early_loads=32),
        TensorBudget(r'persistent_backward_kernel<.*, [13], \d, \d>', 255, 0, 1000, 16,
                     early_loads=8),
    ],
    'reduce': [
        Budget(r'packed_row_kernel<mezzo::BFloat16, SumOf', 48, 14, 32, 4, 0),
        Budget(r'packed_row_kernel<float, SumOf', 48, 29, 16, 4, 0),
        Budget(r'packed_column_sum_kernel<mezzo::BFloat16, mezzo', 40, 14, 32, 4, 0, loop=True),
        Budget(r'packed_column_sum_kernel<mezzo::BFloat16, float', 40, 29, 16, 4, 0, 64, True),
        Budget(r'packed_column_sum_kernel<float', 40, 29, 16, 4, 0, loop=True),
    ],
    # in f32, 8 bytes per element; the counted way converts 16-bit elements
    'scan': [
        Budget(r'scan_kernel<Running<float, mezzo::cpu_kernels::Plus>, false, true>', 40, 40, 4, 1,
               1, 64, True)
    ],
    # terms of a result stay in registers
    'interpolate': [
        Stackless(r'resize_kernel<.*>'),
        Stackless(r'pass_kernel<.*>'),
    ],
    # of lines of 32-bit keys, each digit once
    'sort_lines': [
        Budget(r'first_entries_kernel<.*NarrowEntry, (true|false)>', 56, 45, 16, 0, 0),
    ],
    # for an element of columns; also with divisions, which fewer than 2^31 units do not take
    'unfold': [Budget(r'unfold_kernel<unsigned int>', 40, 75, 4, 0, 0)],
    # the counted way ends a segment at each row
    'rows': [
        Budget(r'(short_)?segment_sums_kernel<mezzo::BFloat16', 80, 34, 32, 4, 4, loop=True),
        # per word, with the slow forms of divisions
        Budget(r'take_kernel', 80, 190, 4, 4, 4),
        Budget(r'put_last_kernel', 56, 208, 1, 0, 0),
    ],
    'softmax': [
        Budget(r'packed_softmax_kernel<mezzo::BFloat16', 48, 29, 32, 4, 4),
        Budget(r'packed_softmax_backward_kernel<mezzo::BFloat16', 64, 29, 32, 8, 4),
    ],
    # the kernels of batch_norm, with their budgets
    'sync_batch_norm': [
        Budget(r'packed_moments_kernel<mezzo::BFloat16', 80, 14, 32, 4, 0, loop=True),
        Budget(r'packed_gradient_sums_kernel<mezzo::BFloat16', 128, 18, 16, 4, 0, loop=True),
        Budget(r'packed_norm_gradient_kernel<mezzo::BFloat16', 128, 18, 16, 4, 2, loop=True),
        Budget(r'packed_run_moments_kernel<mezzo::BFloat16, 8>', 64, 14, 16, 2, 0, loop=True),
        Budget(r'packed_run_sums_kernel<mezzo::BFloat16, 8, false>', 64, 25, 16, 4, 0, loop=True),
        Budget(r'packed_run_gradient_kernel<mezzo::BFloat16, 8, false>', 64, 25, 16, 4, 2, loop=True),
    ],
    # 16-bit gradients and low copies: 201 for the 28 bytes of Adam, 144 for the 20 of SGD. The
    # counted way loads and stores 16-bit parameters and states as well, and writes back gradients
    'updates': [
        Budget(r'update_kernel<mezzo::optim::AdamUpdate, float', 80, 135, 4, 4, 4, 64, True),
        Budget(r'update_kernel<mezzo::optim::SgdUpdate, float', 64, 91, 4, 3, 3, 64, True),
        # with norms; an H200 has 148 for its 28 bytes
        Budget(r'update_kernel<mezzo::optim::LambDirectionUpdate, float', 80, 130, 4, 4, 4, 64,
               True),
    ],
}
MOST_PARAMETERS = 4096  # bytes; what every driver of CUDA 12 accepts
LONG_LIST = re.compile(r'.*, 32764ul>')  # a kernel over a list whose parameters have at most these
MOST_OF_LONG_LIST = 32764
PARAMETERS_AT = 0x210  # in the constant bank, before them: sizes of the grid
RESERVED_SHARED = 1024  # bytes of each block, which the driver takes
ARCHITECTURE = 90
# Of an object's machine code (fatbinary) and of the resources in it (.nv.info).
FAT_MAGIC, FAT_ELF = 0xBA55ED50, 2
INFO_WITH_SIZE, FRAME, REGISTERS = 0x04, 0x11, 0x2F


class Block:
    """Instructions without a branch between them."""

    def __init__(self):
        self.instructions = []
        self.next = []

    def calls(self):
        return any(word.startswith('CALL') for word in self.instructions)

    def count(self, word):
        return sum(1 for other in self.instructions if other.startswith(word))


INSTRUCTION = re.compile(r'/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?(\S+)(.*?);')
LABEL = re.compile(r'^(\.L_\S+):')
TARGET = re.compile(r'`\((\.L_[^)]*)\)')
ENDS = ('BRA', 'EXIT', 'RET', 'BSYNC', 'BREAK', 'BRX', 'JMP')


def blocks_of(lines):
    """Returns the blocks of a function in nvdisasm's output; the first is its entry."""
    blocks, labels, waits = [Block()], {}, {}
    jumps = []  # (block, label)
    for line in lines:
        label = LABEL.match(line)
        if label:
            if blocks[-1].instructions:
                blocks.append(Block())
                blocks[-2].next.append(blocks[-1])
            labels[label[1]] = blocks[-1]
            continue
        found = INSTRUCTION.search(line)
        if not found:
            continue
        condition, word, rest = found.groups()
        block = blocks[-1]
        block.instructions.append(word)
        target = TARGET.search(rest)
        if word == 'BSSY' and target:
            waits[rest.split(',')[0].strip()] = target[1]
        if not word.startswith(ENDS) or word.startswith('BRA.DIV') or word.startswith('BREAK'):
            continue
        if word.startswith('BSYNC'):
            jumps.append((block, waits.get(rest.strip())))
            condition = None
        elif target and word.startswith('BRA'):
            jumps.append((block, target[1]))
            if 'UPT' not in rest and re.search(r'\bU?P\d', rest):  # BRA.U UP0 has it as operand
                condition = True
        blocks.append(Block())
        if condition:
            block.next.append(blocks[-1])
    for block, label in jumps:
        if label in labels:
            block.next.append(labels[label])
    return blocks


def forward_edges(entry):
    """Returns ({block: [next blocks without branches back]}, [(end of a loop, its begin)])."""
    edges, back, on_way = {}, [], set()

    def visit(block):
        edges[block] = []
        on_way.add(block)
        for other in block.next:
            if other.calls():
                continue
            if other in on_way:
                back.append((block, other))
                continue
            edges[block].append(other)
            if other not in edges:
                visit(other)
        on_way.discard(block)

    visit(entry)
    return edges, back


def longest(edges, begin, end=None):
    """Returns the blocks of the way with the most instructions, to `end` or to any end."""
    known = {}

    def rest(block):
        if block not in known:
            best = None
            for other in edges[block]:
                found = rest(other)
                if found and (best is None or found[0] > best[0]):
                    best = found
            if end is None and best is None or block is end:
                best = (0, ())
            known[block] = best and (best[0] + len(block.instructions), (block, *best[1]))
        return known[block]

    return rest(begin)


def way_of(lines, loop, wanted=''):
    """Returns the counted blocks of a kernel and their number of instructions: of the longest loop
    that has the wanted instruction, or from the entry to the end."""
    entry = blocks_of(lines)[0]
    edges, back = forward_edges(entry)
    if not loop:
        number, blocks = longest(edges, entry)
        return blocks, number
    ways = [longest(edges, begin, end) for end, begin in back]
    number, blocks = max((way for way in ways if way and any(block.count(wanted)
                                                             for block in way[1])),
                         key=lambda way: way[0],
                         default=(0, ()))
    return blocks, number


def functions_of(sass):
    """Returns {mangled name: lines} of nvdisasm's output."""
    functions, lines = {}, []
    for line in sass.split('\n'):
        start = re.match(r'^\.text\.(\S+):', line)
        if start:
            lines = functions.setdefault(start[1], [])
        elif line.startswith('//----'):
            lines = []
        else:
            lines.append(line)
    return functions


class Sections:
    """The sections of an ELF file."""

    def __init__(self, data):
        start, = struct.unpack_from('<Q', data, 0x28)
        size, count, names = struct.unpack_from('<HHH', data, 0x3A)
        headers = [struct.unpack_from('<IIQQQQ', data, start + i * size) for i in range(count)]
        table = headers[names][4]
        self.data = data
        self.places = {
            data[table + name:data.index(b'\0', table + name)].decode(): (offset, length)
            for name, _, _, _, offset, length in headers
        }

    def size(self, name):
        return self.places.get(name, (0, 0))[1]

    def bytes(self, name):
        offset, length = self.places[name]
        return self.data[offset:offset + length]

    def symbols(self):
        """Returns the names of the symbols, in order."""
        table, names = self.bytes('.symtab'), self.bytes('.strtab')
        starts = [struct.unpack_from('<I', table, at)[0] for at in range(0, len(table), 24)]
        return [names[start:names.index(b'\0', start)].decode() for start in starts]


def cubins_of(path):
    """Returns the machine code for sm_90 in an object of nvcc's that is not compressed."""
    fat = Sections(path.read_bytes()).bytes('.nv_fatbin')
    found, at = [], 0
    while at < len(fat):
        if struct.unpack_from('<I', fat, at)[0] != FAT_MAGIC:  # padding
            at += 8
            continue
        header, size = struct.unpack_from('<HQ', fat, at + 6)
        at += header
        end = at + size
        while at < end:
            kind, _, header, size = struct.unpack_from('<HHIQ', fat, at)
            payload = fat[at + header:at + header + size]
            is_code = kind == FAT_ELF and payload.startswith(b'\x7fELF')
            if is_code and struct.unpack_from('<I', fat, at + 28)[0] == ARCHITECTURE:
                found.append(payload)
            at += header + size
    return found


def info_of(sections):
    """Returns {mangled name: {attribute: value}} of the resources in a cubin."""
    info, names, found, at = sections.bytes('.nv.info'), sections.symbols(), {}, 0
    while at < len(info):
        form, attribute, size = struct.unpack_from('<BBH', info, at)
        at += 4
        if form != INFO_WITH_SIZE:
            continue
        if attribute in (REGISTERS, FRAME):
            symbol, value = struct.unpack_from('<II', info, at)
            found.setdefault(names[symbol], {})[attribute] = value
        at += size
    return found


class Kernel(NamedTuple):
    name: str  # demangled
    registers: int
    shared: int  # bytes
    stack: int
    parameters: int
    lines: list  # of SASS; empty without nvdisasm


def demangled(names):
    """Returns the names without the arguments of the functions."""
    lines = must(['c++filt'], input='\n'.join(names)).split('\n')
    return [re.sub(r'^void |mezzo::gpu::|\(anonymous namespace\)::', '', line) for line in lines]


def kernels_of(name, build, folder, disassembler):
    """Returns the kernels of a file that have a budget."""
    kernels = []
    for cubin in cubins_of(Path(build) / 'cuda' / f'{name}.cu.o'):
        path, sections = folder / f'{name}.cubin', Sections(cubin)
        path.write_bytes(cubin)
        info = {
            name: values for name, values in info_of(sections).items()
            if f'.nv.constant0.{name}' in sections.places
        }
        wanted = {
            mangled: plain for plain, mangled in zip(demangled(info), info)
            if any(re.match(budget.kernel, plain) for budget in BUDGETS[name])
        }
        functions = {}
        if disassembler and wanted:
            symbols = sections.symbols()
            indices = ','.join(str(symbols.index(mangled)) for mangled in wanted)
            functions = functions_of(must([disassembler, '-c', '-fun', indices, path]))
        for mangled, plain in wanted.items():
            shared = sections.size(f'.nv.shared.{mangled}')
            parameters = sections.size(f'.nv.constant0.{mangled}') - PARAMETERS_AT
            kernels.append(
                Kernel(plain, info[mangled][REGISTERS], max(0, shared - RESERVED_SHARED),
                       info[mangled].get(FRAME, 0), parameters, functions.get(mangled, [])))
    return kernels


def instruction_failures(budget, kernel):
    """Returns what exceeds the budget of instructions, and a line about it."""
    blocks, number = way_of(kernel.lines, budget.loop, f'LDG.E.{budget.bits}')
    loads = sum(block.count(f'LDG.E.{budget.bits}') for block in blocks)
    stores = sum(block.count(f'STG.E.{budget.bits}') for block in blocks)
    per_element = number / budget.elements
    failures = []
    if per_element > budget.per_element:
        failures.append(f'{per_element:.1f} instructions per element, of {budget.per_element}')
    if loads < budget.loads:
        failures.append(f'{loads} LDG.E.{budget.bits}, expected {budget.loads} or more')
    if stores < budget.stores:
        failures.append(f'{stores} STG.E.{budget.bits}, expected {budget.stores} or more')
    spilled = sum(block.count('STL') + block.count('LDL') for block in blocks)
    if spilled:
        failures.append(f'{spilled} loads and stores of spilled registers')
    return failures, f', {per_element:.1f} per element ({number} / {budget.elements})'


def step_failures(budget, kernel):
    """Returns what exceeds the budget of a time step, and a line about it."""
    blocks, number = way_of(kernel.lines, True, 'HMMA')
    products = sum(block.count('HMMA') for block in blocks)
    failures = []
    if number > budget.per_step:
        failures.append(f'{number} instructions per step, of {budget.per_step}')
    if products < budget.products:
        failures.append(f'{products} HMMA per step, expected {budget.products} or more')
    about = f', {number} instructions and {products} HMMA per step'
    if budget.early_loads:
        words = [word for block in blocks for word in block.instructions]
        first = next((i for i, word in enumerate(words) if word.startswith('HMMA')), 0)
        loads = sum(word.startswith(('LDG.E.128', 'LDGSTS')) for word in words[:first])
        if loads < budget.early_loads:
            failures.append(f'{loads} loads before the first HMMA, expected {budget.early_loads} '
                            'or more')
        about += f', {loads} loads before the first'
    if budget.matrix_loads:
        loads = sum(block.count('LDSM') for block in blocks)
        generic = sum(block.count('LD.') for block in blocks)
        if loads < budget.matrix_loads:
            failures.append(f'{loads} LDSM per step, expected {budget.matrix_loads} or more')
        if generic:
            failures.append(f'{generic} generic LD per step')
        about += f', {loads} LDSM'
    return failures, about


def product_failures(budget, kernel):
    """Returns what exceeds the budget of a kernel of products, and a line about it."""
    edges, back = forward_edges(blocks_of(kernel.lines)[0])
    loops, steps, failures = [], [0], []
    for end, begin in back:
        number, blocks = longest(edges, begin, end) or (0, ())
        products, loads, spilled, barriers = (sum(
            block.count(word) for block in blocks
            for word in words) for words in (['FFMA'], ['LDS.128'], ['STL', 'LDL'], ['BAR']))
        if barriers:
            steps.append(number)
        elif products >= 128:
            loops.append(number / products)
            if loads * 128 > products * 12:
                failures.append(f'{loads} shared loads for {products} FFMA')
            if spilled:
                failures.append(f'{spilled} loads and stores of spilled registers')
    if len(loops) < budget.loops:
        failures.append(f'{len(loops)} loops over terms, expected {budget.loops} or more')
    if max(loops, default=0) > budget.per_product:
        failures.append(f'{max(loops):.2f} instructions per FFMA, of {budget.per_product}')
    if max(steps) > budget.per_step:
        failures.append(f'{max(steps)} instructions per step, of {budget.per_step}')
    return failures, (f', {max(loops, default=0):.2f} per FFMA in {len(loops)} loops, '
                      f'{max(steps)} per step')


def failures_of(budget, kernel, has_sass):
    """Prints a line about the kernel and returns what exceeds its budget."""
    if isinstance(budget, Stackless):
        return [f'{kernel.name}: {kernel.stack} bytes of stack'] if kernel.stack else []
    failures = []
    if kernel.registers > budget.registers:
        failures.append(f'{kernel.registers} registers, of {budget.registers}')
    is_tensor = isinstance(budget, TensorBudget)
    has_slow_forms = is_tensor or isinstance(budget, ProductBudget)
    if is_tensor and kernel.shared > budget.shared:
        failures.append(f'{kernel.shared} bytes of shared memory, of {budget.shared}')
    # slow forms, which are called, may have a frame
    if kernel.stack > (budget.stack if has_slow_forms else 0) and (has_slow_forms or
                                                                   not budget.loop):
        failures.append(f'{kernel.stack} bytes of stack')
    most = MOST_OF_LONG_LIST if LONG_LIST.match(kernel.name) else MOST_PARAMETERS
    if kernel.parameters > most:
        failures.append(f'{kernel.parameters} bytes of parameters, of {most}')
    about = ''
    if has_sass:
        check = {TensorBudget: step_failures, ProductBudget: product_failures}.get(
            type(budget), instruction_failures)
        more, about = check(budget, kernel)
        failures += more
    name = re.sub(r'\(.*', '', kernel.name)
    print(f'{name}: {kernel.registers} registers, {kernel.stack} bytes of stack, '
          f'{kernel.parameters} of parameters{about}')
    return [f'{name}: {failure}' for failure in failures]


def find_disassembler(build, nvcc):
    places = [Path(nvcc).parent, *(Path(build) / 'disassembler').glob('nvidia/cu*/bin')]
    path = os.pathsep.join([str(place) for place in places] + [os.environ.get('PATH', '')])
    return shutil.which('nvdisasm', path=path)


def main(build, nvcc):
    sys.setrecursionlimit(100000)  # ways of many blocks
    disassembler = find_disassembler(build, nvcc)
    if not disassembler:
        print('nvdisasm was not found: only resources are checked')
    elif run([disassembler, '--version']).returncode != 0:
        verdict(0, [f'{disassembler} does not start'])
    passed, failures = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        lists = in_parallel(lambda name: kernels_of(name, build, Path(scratch), disassembler),
                            BUDGETS)
    if not any(lists):
        skip('the build has no machine code for sm_90')
    for (name, budgets), kernels in zip(BUDGETS.items(), lists):
        for budget in budgets:
            matching = [kernel for kernel in kernels if re.match(budget.kernel, kernel.name)]
            if not matching:
                failures.append(f'{name}.cu has no kernel {budget.kernel}')
            for kernel in matching:
                found = failures_of(budget, kernel, bool(disassembler))
                failures += found
                passed += not found
    if not disassembler and not failures:
        print('instructions were not counted: nvdisasm was not found '
              '(pip install nvidia-cuda-nvdisasm)')
        sys.exit(77)
    verdict(passed, failures)


def print_measured():
    """Prints the name of each file with a budget, and the ops whose kernels have it."""
    for name, budgets in BUDGETS.items():
        found = re.findall(r'mezzo::(op::)\(?([\w|]+)', ' '.join(each.kernel for each in budgets))
        ops = {prefix + op for prefix, names in found for op in names.split('|')}
        print(f'{name}={", ".join(sorted(ops))}')


if sys.argv[1:] == ['--measured']:
    print_measured()
else:
    main(*sys.argv[1:])
