#!/usr/bin/env python3
"""tiny_gguf.py FILE [TYPE]: writes a llama of two layers with random weights of a type (float16), whose tokens are bytes."""

import sys

import gguf
import numpy as np

WIDTH, HEADS, KV_HEADS, LAYERS, FEED_FORWARD, TOKENS = 256, 4, 2, 2, 512, 288
KV_WIDTH = WIDTH * KV_HEADS // HEADS
BYTES = 256
UNKNOWN, CONTROL, NORMAL, BYTE = 2, 3, 1, 6  # kinds of tokens

random = np.random.default_rng(1)
writer = gguf.GGUFWriter(sys.argv[1], "llama")
precision = np.dtype(sys.argv[2] if len(sys.argv) > 2 else "float16")


def weights(name, *shape):
    writer.add_tensor(name + ".weight", (random.standard_normal(shape) * 0.05).astype(precision))


def norm(name):
    writer.add_tensor(name + ".weight", np.ones(WIDTH, np.float32))


writer.add_name("tiny-random")
writer.add_context_length(512)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(FEED_FORWARD)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_vocab_size(TOKENS)

names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(BYTES)]
words = TOKENS - len(names)
writer.add_tokenizer_model("llama")
writer.add_token_list(names + [f"\u2581w{word}" for word in range(words)])
writer.add_token_scores([0.0] * TOKENS)
writer.add_token_types([UNKNOWN, CONTROL, CONTROL] + [BYTE] * BYTES + [NORMAL] * words)
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_unk_token_id(0)

weights("token_embd", TOKENS, WIDTH)
norm("output_norm")
weights("output", TOKENS, WIDTH)
for layer in range(LAYERS):
    block = f"blk.{layer}."
    norm(block + "attn_norm")
    norm(block + "ffn_norm")
    weights(block + "attn_q", WIDTH, WIDTH)
    weights(block + "attn_k", KV_WIDTH, WIDTH)
    weights(block + "attn_v", KV_WIDTH, WIDTH)
    weights(block + "attn_output", WIDTH, WIDTH)
    weights(block + "ffn_gate", FEED_FORWARD, WIDTH)
    weights(block + "ffn_up", FEED_FORWARD, WIDTH)
    weights(block + "ffn_down", WIDTH, FEED_FORWARD)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
