// A seal: the last bytes of a file that tallsketch writes for itself (sketch files, checkpoints), a checksum of all bytes before
// them. HDF5 does not look beyond the end that it knows; what is damaged is refused before HDF5 1.10 is given it, because
// that trusts counts inside a file and may write beyond its memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tallsketch {

/// The bytes of a file, and its seal.
std::vector<std::byte> sealed(std::vector<std::byte> bytes);

/// Reads a file once.
/// Errors  kInput: it cannot be read, has no seal, or is not what was sealed
void require_seal(const std::string& path);

}  // namespace tallsketch
