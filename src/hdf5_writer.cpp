#include "src/hdf5_writer.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/atomic_file.h"
#include "src/error.h"
#include "src/hdf5_file.h"
#include "src/hdf5_image.h"
#include "src/problem_shape.h"

namespace tallsketch {

namespace {

Hdf5Handle simple_space(std::int64_t rows, std::int64_t cols, int rank) {
  const std::array<hsize_t, 2> dims = {static_cast<hsize_t>(rows), static_cast<hsize_t>(cols)};
  return {checked_output(H5Screate_simple(rank, dims.data(), nullptr), "H5Screate_simple"), H5Sclose};
}

/// IEEE binary16, little-endian, as h5py's float16.
Hdf5Handle half_type() {
  Hdf5Handle type(checked_output(H5Tcopy(H5T_IEEE_F32LE), "H5Tcopy"), H5Tclose);
  checked_output(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "H5Tset_fields");
  checked_output(H5Tset_size(type.get(), 2), "H5Tset_size");
  checked_output(H5Tset_ebias(type.get(), 15), "H5Tset_ebias");
  return type;
}

/// A file that is memory, and only where something was written to it. HDF5 wants a name: that of a descriptor, because a file
/// in /dev/shm shares its size with MPI, and its names with other users.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create(kName, MFD_CLOEXEC)), path_(fmt::format("/proc/self/fd/{}", descriptor_)) {
    if (descriptor_ >= 0 && ::access(path_.c_str(), R_OK | W_OK) == 0) return;
    // A kernel that has none, or a container without /proc.
    if (descriptor_ >= 0) ::close(descriptor_);
    named_.emplace(folder() / kName);
    path_ = named_->temporary();
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    check(descriptor_, "open");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const {
    const off_t end = ::lseek(descriptor_, 0, SEEK_END);
    check(end, "lseek");
    return end;
  }
  std::vector<ProblemFile::Piece> pieces() const {
    std::vector<ProblemFile::Piece> found;
    const off_t end = size();
    for (off_t at = 0; at < end;) {
      const off_t begin = ::lseek(descriptor_, at, SEEK_DATA);
      if (begin < 0 && errno == ENXIO) break;  // only holes are left
      check(begin, "lseek");
      at = ::lseek(descriptor_, begin, SEEK_HOLE);
      check(at, "lseek");
      ProblemFile::Piece piece{begin, std::vector<std::byte>(static_cast<std::size_t>(at - begin))};
      check(::pread(descriptor_, piece.bytes.data(), piece.bytes.size(), begin) == at - begin ? 0 : -1, "pread");
      found.push_back(std::move(piece));
    }
    return found;
  }

 private:
  static constexpr const char* kName = "tallsketch-structure";

  static std::filesystem::path folder() {
    const std::filesystem::path memory = "/dev/shm";
    return ::access(memory.c_str(), W_OK | X_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }
  void check(off_t result, const char* call) const {
    const int reason = errno;
    require(result >= 0, ErrorKind::kOutput, fmt::format("cannot {} '{}': {}", call, path(), std::strerror(reason)));
  }

  int descriptor_;
  std::string path_;
  std::optional<AtomicFile> named_;  // never committed
};

Hdf5Handle stored_type(ElementType type) {
  if (type == ElementType::kFloat16) return half_type();
  return {checked_output(H5Tcopy(type == ElementType::kFloat64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE), "H5Tcopy"),
          H5Tclose};
}

}  // namespace

std::vector<std::byte> solution_image(const Solution& solution, std::int64_t n, std::int64_t r,
                                      const std::string& provenance) {
  Hdf5Image image;
  const int rank = r == 1 ? 1 : 2;
  image.add("/x", solution.x, n, r, rank);
  constexpr std::size_t kLongestAttribute = 60000;
  if (provenance.size() <= kLongestAttribute) {
    image.add_attribute("/x", "provenance", provenance);
  } else {  // of very many files
    image.add_text("/provenance", provenance);
    image.add_attribute("/x", "provenance", "too long for an attribute: see the dataset /provenance");
  }
  if (!solution.standard_errors.empty()) image.add("/standard_errors", solution.standard_errors, n, r, rank);
  return image.bytes();
}

ProblemFile make_problem_file(std::int64_t rows, std::int64_t cols, ElementType a_type,
                              const std::vector<double>& x_true, const std::string& provenance) {
  initialise_hdf5();
  const MemoryFile memory;
  ProblemFile problem;
  {
    // The default driver asks where the link in /proc leads, which is no path (H5F__build_actual_name); this one does not.
    const Hdf5Handle access(checked_output(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"), H5Pclose);
    checked_output(H5Pset_fapl_stdio(access.get()), "H5Pset_fapl_stdio");
    const Hdf5Handle file(
        checked_output(H5Fcreate(memory.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "H5Fcreate"),
        H5Fclose);
    const Hdf5Handle creation(checked_output(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate"), H5Pclose);
    // Space at once and no fill values: the offsets are known now, and the data is written once, by the ranks.
    checked_output(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
    checked_output(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
    const auto create = [&](const char* name, ElementType type, std::int64_t m, std::int64_t n, int rank) {
      const Hdf5Handle stored = stored_type(type);
      const Hdf5Handle space = simple_space(m, n, rank);
      return Hdf5Handle(checked_output(H5Dcreate2(file.get(), name, stored.get(), space.get(), H5P_DEFAULT,
                                                  creation.get(), H5P_DEFAULT),
                                       "H5Dcreate2"),
                        H5Dclose);
    };
    const Hdf5Handle a = create("/A", a_type, rows, cols, 2);
    const Hdf5Handle b = create("/b", stored_b_type(a_type), rows, 1, 1);
    const Hdf5Handle x = create("/x_true", ElementType::kFloat64, cols, 1, 1);
    checked_output(H5Dwrite(x.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x_true.data()), "H5Dwrite");
    write_hdf5_text(a.get(), "provenance", provenance);
    const haddr_t a_offset = H5Dget_offset(a.get());
    const haddr_t b_offset = H5Dget_offset(b.get());
    require(a_offset != HADDR_UNDEF && b_offset != HADDR_UNDEF, ErrorKind::kInternal, "HDF5 gave no file offsets");
    checked_output(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "H5Fflush");
    problem.offsets = {static_cast<std::int64_t>(a_offset), static_cast<std::int64_t>(b_offset)};
  }
  problem.size = memory.size();
  problem.pieces = memory.pieces();
  return problem;
}

}  // namespace tallsketch
