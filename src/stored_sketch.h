// StoredSketch: a finished sketch with all that gives it a meaning, so that it can be kept in a file, added to others of
// disjoint rows, and solved later. Pure. Made by sketching.cpp, read and written by sketch_file.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/check_rows.h"
#include "kernels/sketch_spec.h"
#include "src/options.h"
#include "src/problem_shape.h"
#include "src/row_range.h"

namespace tallsketch {

struct StoredSketch {
  // Which sketch of what: sketches that agree in all of these can be added.
  SketchSpec spec;
  std::int64_t check_rows = 0;  // of S, held back from x
  std::int64_t n = 0, r = 0;
  ElementType a_type = ElementType::kFloat32;
  std::vector<int> exponents;  // column j of [A | b] was multiplied by 2^exponents[j]; empty: by 1
  // The rows that are in it, and their sums.
  std::vector<RowRange> rows;      // global; sorted, disjoint, not adjacent
  std::vector<double> b_squares;   // (r): ||b||^2 of the columns as they were sketched
  std::vector<double> sketch;      // (d, n + r) row-major, without 1 / sqrt(zeta); values of the spec's precision
  std::vector<std::string> files;  // that it was made from, for people
  std::string checksum;            // of the file that it was read from

  /// Of the rows that are in it.
  ProblemShape shape() const;
  CheckRows held_back() const { return make_check_rows(spec.d, check_rows); }
};

/// The options that make this sketch's spec: every field said, d by --sketch-rows.
SketchOptions options_of(const StoredSketch& sketch);

/// A field of the identity, for messages: its name, and its value in words.
struct IdentityField {
  std::string name, value;
};
std::vector<IdentityField> identity_fields(const StoredSketch& sketch);

/// sum += part. Integer data add exactly.
/// Order   of summation: that of the calls
/// Errors  kInput where the identities differ, naming the first field and both values, or the rows overlap
/// sum_name, part_name  for messages
void add(const StoredSketch& part, const std::string& part_name, const std::string& sum_name, StoredSketch& sum);

/// Errors  kUsage where an option that was given contradicts the stored sketch, naming it and both values
void require_no_contradiction(const SketchOptions& options, const StoredSketch& sketch, const std::string& name);

/// read    (r): ||b||^2 of the rows that are there, summed in any order, of columns as they were sketched
/// stored  of the sketch
/// Errors  kInput where they are those of different b, naming the column and both
void require_same_b(const std::vector<double>& read, const std::vector<double>& stored, const std::string& name);

/// Errors  kUsage unless the sketch is of all m rows, with as many columns
void require_sketch_of(const ProblemShape& shape, const StoredSketch& sketch, const std::string& name);

}  // namespace tallsketch
