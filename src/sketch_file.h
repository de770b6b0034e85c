// Sketch files: a StoredSketch in HDF5, read and written by one rank. Used by the sketch and solve drivers.
//
//   /SA         (d, n + r) float32, or float64 of an fp64 sketch: S [A | b] without the factor 1 / sqrt(zeta)
//   /b_squares  (r) float64: ||b||^2, column by column, of the columns as they were sketched
//   /identity   text, JSON: which S, of which rows, of what (schema_version 1); attribute `checksum`: of all three
// and a seal at the end (file_seal).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/stored_sketch.h"

namespace tallsketch {

/// The whole file. command_line  of the run that makes it. Errors: kOutput
std::vector<std::byte> sketch_image(const StoredSketch& sketch, const std::string& command_line);

/// Errors  kInput: missing, not a sketch file, another version, corrupt; nothing is allocated that the file cannot fill
StoredSketch read_sketch(const std::string& path);

/// The JSON of the identity, and back. what  for messages: "'s.h5'". Errors: kInput
std::string identity_json(const StoredSketch& sketch, const std::string& command_line);
StoredSketch parse_identity(const std::string& text, const std::string& what);

/// 64 bits, as hexadecimal digits, that tell damage by accident.
std::string checksum(const std::string& text, const std::vector<const std::vector<double>*>& values);

}  // namespace tallsketch
