// The powers of two that columns are multiplied by before they are rounded to 16 bits. Pure; called by the 16-bit sketches of
// both backends, so that they round alike.
#pragma once

#include "kernels/sketch_spec.h"
#include "src/choices.h"

namespace tallsketch {

/// Of a column whose entries are at most `largest`, with the sum `squares` of their squares: brings its entries and bucket
/// sums near 2^12, a sixteenth of the largest half. A bucket sums entries with the standard deviation ||a|| sqrt(zeta / d),
/// and eight of those are never reached in practice.
double half_factor_of_column(const SketchSpec& spec, float largest, double squares);

/// The factor of every column where none depends on the data. Without scaling the paper's 1 / sqrt(zeta). BF16 has the
/// range of FP32: powers of two change neither its rounding nor what overflows in a sketch that FP32 can hold.
double fixed_half_factor(const SketchSpec& spec, ScalingChoice scaling);

}  // namespace tallsketch
