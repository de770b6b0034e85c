// Where the entry tables of the strip engine keep what. Included by entry_table.cu and block_table.cu.
#pragma once

#include "kernels/strip_plan.h"

namespace tallsketch::cuda {

/// What a 32-bit word of a tile's table holds: one entry of a slot, and the same entry of the slot behind it.
struct TableWord {
  int cta, slot, entry;
};

/// Layout: [CTA][group][entry of a slot][slot of the group], 16-bit entries.
/// cta_words  words of a CTA's part; entries  of a slot
__device__ inline TableWord table_word(int word, int cta_words, int entries) {
  constexpr int kGroupWords = kSlotsPerGroup / 2;
  const int inside = word % cta_words;
  return {word / cta_words, inside / (entries * kGroupWords) * kSlotsPerGroup + inside % kGroupWords * 2,
          inside / kGroupWords % entries};
}

}  // namespace tallsketch::cuda
