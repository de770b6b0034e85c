// Attempt: what A is compressed to, and what to try next where that does not resolve A. Pure.
// Chosen by solver.cpp: Gram matrix -> sketch; 16-bit sketch -> FP32 -> FP64.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/cost_model.h"
#include "src/options.h"
#include "src/reduced_solver.h"

namespace tallsketch {

struct Attempt {
  SketchOptions sketch;
  Compression compression = Compression::kSketch;
  bool automatic_d = false;     // nobody asked for d: less will do where memory is short
  bool from_file = false;       // its sketch is a file's, for which this run makes no pass
  int sketch_copies = 0;        // in FP64, that rank 0 holds for checkpoints and of a sketch file
  std::int64_t fixed_rows = 0;  // d, of the attempt that a checkpoint goes on with; 0: by the options
};

/// Conditions, after column scaling, up to which a preconditioner resolves every direction and a certificate by it can be
/// believed. A Gram matrix squares the condition, a sketch rounds to its format.
double resolved_condition(const Attempt& attempt);

/// The attempt that sees more than this one; nothing where none does.
std::optional<Attempt> finer_attempt(const Attempt& attempt);

/// Unit roundoff of the stored type, as far as rank is concerned: of FP64, and of FP32 for the others, because 16-bit data
/// are rarely the rounded values of something finer.
double stored_roundoff(ElementType stored);

/// "FP64 Gram matrix", "fp32 sketch"
std::string describe(const Attempt& attempt);

}  // namespace tallsketch
