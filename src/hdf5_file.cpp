#include "src/hdf5_file.h"

#include <cstdlib>

#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "src/communicator.h"
#include "src/error.h"

namespace tallsketch {

namespace {

void check_format(const InputFile& file) {
  const htri_t is_hdf5 = H5Fis_hdf5(file.path().c_str());
  H5Eclear2(H5E_DEFAULT);
  if (is_hdf5 > 0) return;
  std::string hint;
  if (file.head().starts_with("PK")) hint = "; an .npz or .zip archive is not read: save the arrays with numpy.save";
  if (file.head().starts_with("MATLAB 5.0")) hint = "; it is a MATLAB file of version 7 or older: save it with -v7.3";
  throw Error(ErrorKind::kInput,
              fmt::format("'{}' is not an HDF5 file ({} bytes, no HDF5 signature){}", file.path(), file.bytes(), hint));
}

/// "truncated: 60000 of 476230 bytes" where HDF5 says so in its own words, else HDF5's words.
std::string open_failure(const std::string& path, const std::string& text) {
  const auto eof = text.find("eof = ");
  const auto stored = text.find("stored_eof = ");
  if (eof == std::string::npos || stored == std::string::npos) return fmt::format("cannot open '{}': {}", path, text);
  return fmt::format("'{}' is truncated: {} of {} bytes", path, std::strtoull(text.c_str() + eof + 6, nullptr, 10),
                     std::strtoull(text.c_str() + stored + 13, nullptr, 10));
}

herr_t collect_error(unsigned, const H5E_error2_t* error, void* text) {
  auto& all = *static_cast<std::string*>(text);
  if (error->desc != nullptr && *error->desc != '\0') all += (all.empty() ? "" : "; ") + std::string(error->desc);
  return 0;
}

// Open MPI 4.1's sharedfp component formats a name of its own from the path into 256 bytes and aborts beyond.
constexpr std::size_t kLongestMpiPath = 200;

}  // namespace

void check_h5(long long status, ErrorKind kind, const std::string& what, std::source_location where) {
  if (status >= 0) return;
  throw Error(kind, fmt::format("{}: {}", what, hdf5_error_text()), where);
}

void initialise_hdf5() {
  // Compute nodes mount file systems without locks (Lustre, NFS); input is only read, so a lock protects nothing.
  ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  // No code from outside: neither filters, nor, in HDF5 1.12 and later, drivers that the environment names, which are
  // looked for while the library starts.
  ::setenv("HDF5_PLUGIN_PRELOAD", "::", 1);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
#ifdef __GLIBC__
  // HDF5 takes chunks from malloc and lets them grow as they are decompressed. From 4 MiB on they are mappings of their own:
  // in the heap, where glibc puts them once one was freed, holes between them took as much again (twelve shards of 16 MiB
  // chunks: 132 MiB held instead of 92).
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
}

std::string hdf5_error_text() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_error, &text);
  H5Eclear2(H5E_DEFAULT);
  return text.empty() ? "no reason given by HDF5" : text;
}

Hdf5File Hdf5File::open(const std::string& path, const Communicator* comm) {
  Hdf5File result;
  const auto look = [&] {
    initialise_hdf5();
    result.input_ = InputFile(path);
    check_format(result.input_);
  };
  const auto open_with = [&](hid_t access) {
    result.file_ = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
    if (result.file_.get() < 0) throw Error(ErrorKind::kInput, open_failure(path, hdf5_error_text()));
  };
#if TALLSKETCH_HDF5_PARALLEL
  if (comm != nullptr && path.size() <= kLongestMpiPath) {
    comm->together(look);
    result.parallel_ = true;
    const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    comm->together([&] {
      check_h5(H5Pset_fapl_mpio(access.get(), comm->handle(), MPI_INFO_NULL), ErrorKind::kInternal, "H5Pset_fapl_mpio");
    });
    // Once by one rank alone: Open MPI's MPI-IO tells no reads that fail, so a damaged file may seem to open (fuzz.hdf5).
    comm->together([&] {
      if (comm->rank() == 0) open_with(H5P_DEFAULT);
      result.file_ = {};
    });
    comm->together([&] { open_with(access.get()); });  // H5Fopen is collective: reached by all, or by none
    return result;
  }
#endif
  const auto open_alone = [&] {
    look();
    open_with(H5P_DEFAULT);
  };
  if (comm != nullptr) {
    comm->together(open_alone);
  } else {
    open_alone();
  }
  return result;
}

bool Hdf5File::has(const std::string& name) const {
  const bool found = H5Oexists_by_name(file_.get(), name.c_str(), H5P_DEFAULT) > 0;
  H5Eclear2(H5E_DEFAULT);
  return found;
}

std::string hdf5_library_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) return "unknown";
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace tallsketch
