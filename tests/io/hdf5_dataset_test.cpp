// Reading HDF5 in blocks (C-01 with the limit lowered), handles closed before files (C-44), datasets without rows
// (C-43). Files are made here by the HDF5 C library; those of h5py are read in read_h5py_files.py.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/file_source.h"
#include "src/hdf5_dataset.h"
#include "src/hdf5_file.h"
#include "tests/support/error_kind.h"
#include "tests/support/mpi_check.h"

using namespace tallsketch;

namespace {

constexpr std::int64_t kRows = 2003, kCols = 7;

float entry(std::int64_t i, std::int64_t j) { return static_cast<float>((7 * i + 3 * j) % 1000); }

/// (rows, cols) of entry(), or (rows) if cols is 0; chunk_rows 0: contiguous.
void write_dataset(hid_t file, const char* name, std::int64_t rows, std::int64_t cols, std::int64_t chunk_rows) {
  const hsize_t dims[2] = {static_cast<hsize_t>(rows), static_cast<hsize_t>(cols)};
  const hsize_t chunk[2] = {static_cast<hsize_t>(chunk_rows), static_cast<hsize_t>(cols)};
  const int rank = cols == 0 ? 1 : 2;
  std::vector<float> data;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < std::max<std::int64_t>(1, cols); ++j) data.push_back(entry(i, j));
  }
  const Hdf5Handle space(H5Screate_simple(rank, dims, nullptr), H5Sclose);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (chunk_rows > 0) H5Pset_chunk(creation.get(), rank, chunk);
  const Hdf5Handle set(H5Dcreate2(file, name, H5T_IEEE_F32BE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                       H5Dclose);
  if (rows > 0) H5Dwrite(set.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data());
}

/// A problem file that rank 0 makes and removes, the same name on all ranks.
class ProblemFile {
 public:
  explicit ProblemFile(const Communicator& comm, std::int64_t rows = kRows, std::int64_t chunk_rows = 0) : comm_(comm) {
    initialise_hdf5();
    path_ = comm.broadcast(
        (std::filesystem::temp_directory_path() / ("tallsketch-io-" + std::to_string(::getpid()) + ".h5")).string());
    if (comm.is_root()) {
      const Hdf5Handle file(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
      write_dataset(file.get(), "A", rows, kCols, chunk_rows);
      write_dataset(file.get(), "b", rows, 0, chunk_rows);
      write_dataset(file.get(), "short", rows > 0 ? rows - 1 : 0, 0, 0);
    }
    comm.barrier();
  }
  ~ProblemFile() {
    MPI_Barrier(comm_.handle());
    if (comm_.is_root()) std::filesystem::remove(path_);
  }
  ProblemFile(const ProblemFile&) = delete;
  ProblemFile& operator=(const ProblemFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const Communicator& comm_;
  std::string path_;
};

/// Sets the bytes of a read while it lives.
class BlockBytes {
 public:
  explicit BlockBytes(std::int64_t bytes) : previous_(Hdf5Dataset::block_bytes) { Hdf5Dataset::block_bytes = bytes; }
  ~BlockBytes() { Hdf5Dataset::block_bytes = previous_; }
  BlockBytes(const BlockBytes&) = delete;
  BlockBytes& operator=(const BlockBytes&) = delete;

 private:
  std::int64_t previous_;
};

/// Open HDF5 objects of this process: files, datasets, groups, types, attributes.
ssize_t open_objects() { return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL); }

InputOptions input(const std::string& path, const std::string& a = "/A", const std::string& b = "/b") {
  InputOptions options;
  options.files = {path};
  options.a = a;
  options.b = b;
  return options;
}

int open_code(const InputOptions& options, const Communicator& comm, std::string* message = nullptr) {
  try {
    open_file_source(options, comm);
  } catch (const Error& e) {
    if (message != nullptr) *message = e.what();
    return e.exit_code();
  }
  return 0;
}

}  // namespace

TEST_CASE("Rows read in blocks of any size are the rows of the file") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const std::int64_t chunk_rows : {0, 64}) {
    const ProblemFile file(comm, kRows, chunk_rows);
    const auto source = open_file_source(input(file.path()), comm);
    for (const std::int64_t bytes : {std::int64_t{1} << 28, std::int64_t{1000}, std::int64_t{28}, std::int64_t{1}}) {
      const BlockBytes limit(bytes);  // 1000 bytes: 35 rows of A, 250 of b; 1: a row at least
      bool right = true;
      for (const RowRange rows : {RowRange{0, kRows}, RowRange{1, 36}, RowRange{kRows - 1, kRows}, RowRange{500, 500},
                                  RowRange{comm.rank() * 100, comm.rank() * 100 + 71}}) {
        std::vector<float> a(static_cast<std::size_t>(rows.size() * kCols), -1);
        std::vector<double> b(static_cast<std::size_t>(rows.size()), -1);
        source->read(rows, a.data(), b.data());
        for (std::int64_t i = 0; i < rows.size(); ++i) {
          for (std::int64_t j = 0; j < kCols; ++j) {
            right = right && a[static_cast<std::size_t>(i * kCols + j)] == entry(rows.begin + i, j);
          }
          right = right && b[static_cast<std::size_t>(i)] == double{entry(rows.begin + i, 0)};
        }
      }
      INFO("chunks of " << chunk_rows << " rows, blocks of " << bytes << " bytes");
      MPI_REQUIRE(right);
    }
  }
}

TEST_CASE("A dataset tells shape, type, byte order and layout; rows out of range are an internal error") {
  const Communicator comm(MPI_COMM_WORLD);
  const ProblemFile problem(comm, kRows, 64);
  const Hdf5File file = Hdf5File::open(problem.path(), &comm);
  Hdf5Dataset a(file, "/A", false), b(file, "b", false);
  const StoredFacts &of_a = a.facts(), &of_b = b.facts();
  MPI_REQUIRE(of_a.rows == kRows && of_a.cols == kCols && of_a.rank == 2 && shape_text(of_a) == "(2003, 7)");
  MPI_REQUIRE(of_b.rows == kRows && of_b.cols == 1 && of_b.rank == 1 && shape_text(of_b) == "(2003)");
  MPI_REQUIRE(of_a.type == StoredType::kFloat32 && of_a.big_endian && type_text(of_a) == "float32 big-endian");
  MPI_REQUIRE(of_a.layout == "chunked (64 x 7)" && of_b.layout == "chunked (64)");
  MPI_REQUIRE(of_a.offset == -1 && a.element_bytes() == 4 && !a.is_direct());
  MPI_REQUIRE(file.has("/A") && !file.has("/C") && !file.has("/A/deeper"));
  std::vector<std::byte> out(static_cast<std::size_t>((kRows + 1) * (kCols + 1) * 4));
  for (const RowRange range : {RowRange{-1, 1}, RowRange{0, kRows + 1}}) {
    MPI_REQUIRE(error_kind_of([&] { a.read_rows(range, out.data()); }) == ErrorKind::kInternal);
  }
  for (const RowRange range : {RowRange{-1, 1}, RowRange{0, kCols + 1}}) {
    MPI_REQUIRE(error_kind_of([&] { a.read_columns(range, out.data(), 4); }) == ErrorKind::kInternal);
  }
}

TEST_CASE("Datasets and types are closed before their file, also when opening fails (C-44)") {
  const Communicator comm(MPI_COMM_WORLD);
  const ProblemFile problem(comm);
  MPI_REQUIRE(open_objects() == 0);
  {
    const Hdf5File file = Hdf5File::open(problem.path(), &comm);
    MPI_REQUIRE(open_objects() == 1);
    {
      const Hdf5Dataset a(file, "/A", false);
      MPI_REQUIRE(open_objects() > 1);
    }
    MPI_REQUIRE(open_objects() == 1);
    int code = 0;
    try {
      const Hdf5Dataset none(file, "/none", false);
    } catch (const Error& e) {
      code = e.exit_code();
    }
    MPI_REQUIRE(code == 3);
    MPI_REQUIRE(open_objects() == 1);
  }
  MPI_REQUIRE(open_objects() == 0);
  {
    const auto source = open_file_source(input(problem.path()), comm);
    MPI_REQUIRE(open_objects() >= 3);
  }
  MPI_REQUIRE(open_objects() == 0);
  MPI_REQUIRE(open_code(input(problem.path(), "/A", "/none"), comm) == 3);  // after A was opened
  MPI_REQUIRE(open_objects() == 0);
  MPI_REQUIRE(open_code(input(problem.path(), "/A", "/short"), comm) == 3);  // after both were
  MPI_REQUIRE(open_objects() == 0);
  MPI_REQUIRE(open_code(input(problem.path() + ".none"), comm) == 3);
  MPI_REQUIRE(open_objects() == 0);
}

TEST_CASE("A dataset without rows is refused by name and shape on every rank (C-43)") {
  const Communicator comm(MPI_COMM_WORLD);
  const ProblemFile problem(comm, 0);
  std::string message;
  MPI_REQUIRE(open_code(input(problem.path()), comm, &message) == 3);
  INFO(message);
  MPI_REQUIRE(message.find("/A of '" + problem.path() + "' has no rows: (0, 7)") != std::string::npos);
  MPI_REQUIRE(open_objects() == 0);
}

TEST_CASE("Chunks that the matrix does not fill may go through no filter, if the file says so") {
  const Communicator comm(MPI_COMM_WORLD);
  initialise_hdf5();
  for (const bool compressed : {false, true}) {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("tallsketch-border-" + std::to_string(::getpid()) + ".h5"))
            .string();  // one for every rank
    {
      const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose), creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
      H5Pset_libver_bounds(access.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
      const hsize_t dims[2] = {100, 7}, chunk[2] = {64, 7};
      H5Pset_chunk(creation.get(), 2, chunk);
      if (compressed) H5Pset_deflate(creation.get(), 1);
      H5Pset_fletcher32(creation.get());
      H5Pset_chunk_opts(creation.get(), H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
      const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
      const Hdf5Handle space(H5Screate_simple(2, dims, nullptr), H5Sclose);
      const Hdf5Handle set(
          H5Dcreate2(file.get(), "A", H5T_IEEE_F32LE, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), H5Dclose);
      std::vector<float> data;
      for (std::int64_t i = 0; i < 700; ++i) data.push_back(entry(i / 7, i % 7));
      H5Dwrite(set.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data());
      // One checksum for two chunks and, with gzip, fewer bytes for one of them, or this tests nothing.
      const hsize_t stored = H5Dget_storage_size(set.get()), plain = 64 * 7 * 4;
      MPI_REQUIRE(compressed ? stored > plain && stored < 2 * plain : stored == 2 * plain + 4);
    }
    // The last rows alone, too: a rank may begin with the chunk that is not filled.
    for (const RowRange rows : {RowRange{0, 100}, RowRange{90, 100}, RowRange{0, 10}}) {
      bool right = true;
      {
        const Hdf5File file = Hdf5File::open(path, nullptr);
        Hdf5Dataset a(file, "/A", false);
        std::vector<float> out(static_cast<std::size_t>(rows.size() * 7), -1);
        a.read_rows(rows, reinterpret_cast<std::byte*>(out.data()));
        for (std::int64_t i = 0; i < rows.size() * 7; ++i)
          right = right && out[static_cast<std::size_t>(i)] == entry(rows.begin + i / 7, i % 7);
      }
      INFO("compressed: " << compressed << ", rows from " << rows.begin);
      MPI_REQUIRE(right);
    }
    std::filesystem::remove(path);
  }
}
