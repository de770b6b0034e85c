// .npy files (numpy.save) as StoredMatrix, always read directly. Called by file_source.
#pragma once

#include <memory>
#include <string>

#include "src/input_file.h"
#include "src/stored_matrix.h"

namespace tallsketch {

/// Whether the file can be read and begins as a .npy file does. No errors: what cannot be read is none.
bool is_npy_file(const std::string& path);

/// The array of a .npy file, read directly.
/// team  that reads
/// Errors   kInput: header, type, dimensions, fewer bytes than the shape needs
std::unique_ptr<StoredMatrix> open_npy(const InputFile& file, std::shared_ptr<ReadTeam> team);

}  // namespace tallsketch
