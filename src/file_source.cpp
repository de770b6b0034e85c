#include "src/file_source.h"

#include <filesystem>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/fault.h"
#include "src/hdf5_dataset.h"
#include "src/hdf5_file.h"
#include "src/hdf5_probe.h"
#include "src/host_threads.h"
#include "src/npy_file.h"
#include "src/row_shards.h"
#include "src/text.h"

namespace tallsketch {

namespace {

/// A file of that very name comes before the reading as FILE:/name.
DatasetName find_dataset_name(const std::string& text) {
  std::error_code ignored;  // what cannot be asked about is told when it is opened
  if (std::filesystem::exists(text, ignored)) return {text, ""};
  return parse_dataset_name(text);
}

/// Of b: a text that is no FILE:/name is the name of a dataset beside A (the file is then empty), but for .npy files.
DatasetName find_b(const std::string& text) {
  const DatasetName name = parse_dataset_name(text);
  if (!name.dataset.empty()) return name;
  if (text.ends_with(".npy") || is_npy_file(text)) return {text, ""};
  return {"", text};
}

class FileSource final : public RowSource {
 public:
  FileSource(const InputOptions& options, const Communicator& comm, const std::function<void()>& progressed)
      : options_(options), comm_(comm), team_(std::make_shared<ReadTeam>(host_threads(comm))) {
    comm.together([&] {
      if (comm.is_root()) probe_hdf5(options.probe_program, probed_files(), options.transpose, progressed);
    });
    open_a();
    open_b();
    comm.together([&] {
      orient_b();
      check_shards();
      check_shapes();
      describe();
    });
  }

  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }
  Encoding encoding() const override { return a_.encoding().value_or(plain_encoding(shape_.a_type)); }

  void read(RowRange rows, void* a, double* b) override {
    a_.read_decoded(rows, shape_.a_type, static_cast<std::byte*>(a));
    b_.read_doubles(rows, b);
    fault_in_data(b, static_cast<std::size_t>(rows.size() * shape_.r) * sizeof(double));
  }

  void read_encoded(RowRange rows, void* a, double* b) override {
    if (!a_.encoding()) {
      read(rows, a, b);
      return;
    }
    a_.read_stored(rows, static_cast<std::byte*>(a));
    b_.read_doubles(rows, b);
    fault_in_data(b, static_cast<std::size_t>(rows.size() * shape_.r) * sizeof(double));
  }

  std::int64_t buffer_bytes() const override { return a_.buffer_bytes(shape_.a_type) + b_.buffer_bytes_of_doubles(); }

  std::string identity() const override {
    return fmt::format("A: {}; b: {}; as {}", a_.identity(), b_.identity(), to_word(shape_.a_type));
  }

  std::optional<StoredPlace> place_of(std::int64_t row, bool of_b) const override {
    return (of_b ? b_ : a_).place_of(row);
  }

  void check_unchanged() const override {
    for (const InputFile& file : inputs_) file.check_unchanged();
  }

 private:
  // Opening: collective -------------------------------------------------------------------------------------------

  /// Parallel HDF5 reads columns of a row-major dataset wrongly (Open MPI 4.1 returns incomplete data without an error,
  /// case C-08), so those are read by every rank's own handle.
  bool is_parallel() const { return !options_.transpose && options_.io != IoChoice::kDirect; }

  /// All that open_a and open_b open of HDF5 files, in their order.
  std::vector<ProbedFile> probed_files() const {
    std::vector<ProbedFile> files;
    const DatasetName b = find_b(options_.b);
    for (const std::string& text : options_.files) {
      const DatasetName name = find_dataset_name(text);
      if (is_npy_file(name.file)) continue;
      files.push_back({name.file, {name.dataset.empty() ? options_.a : name.dataset}});
      if (b.file.empty()) files.back().datasets.push_back(b.dataset);
    }
    if (!b.file.empty() && !is_npy_file(b.file)) files.push_back({b.file, {b.dataset.empty() ? "/b" : b.dataset}});
    return files;
  }

  bool is_npy_everywhere(const std::string& path) const { return comm_.max(is_npy_file(path) ? 1 : 0) == 1; }

  void open_hdf5(const std::string& path) {
    if (is_parallel()) {
      files_.push_back(Hdf5File::open(path, &comm_));
    } else {
      comm_.together([&] { files_.push_back(Hdf5File::open(path, nullptr)); });
    }
    inputs_.push_back(files_.back().input());
  }

  void add_npy(RowShards& shards, const DatasetName& name) {
    comm_.together([&] {
      require(name.dataset.empty(), ErrorKind::kUsage,
              fmt::format("'{}' is a .npy file: it holds one array, without a name; leave ':{}' out", name.file,
                          name.dataset));
      inputs_.emplace_back(name.file);
      shards.add(open_npy(inputs_.back(), team_), options_.transpose);
    });
  }

  /// auto: what is faster, wherever the bytes of a dataset lie in one run (docs/decisions/0024).
  bool wants_direct(const StoredFacts& facts) const {
    if (options_.io == IoChoice::kAuto) return facts.offset >= 0;
    if (options_.io == IoChoice::kMpio || facts.rows * facts.cols == 0) return false;
    require(facts.offset >= 0, ErrorKind::kUsage,
            fmt::format("--io direct reads a dataset that lies in one run of the file; {} is {}: use --io mpio",
                        place_text(facts), facts.layout));
    return true;
  }

  void add_dataset(RowShards& shards, const Hdf5File& file, const std::string& name) {
    comm_.together([&] {
      auto dataset = std::make_unique<Hdf5Dataset>(file, name, options_.transpose);
      if (wants_direct(dataset->facts())) dataset->read_directly(team_);
      shards.add(std::move(dataset), options_.transpose);
    });
  }

  void open_a() {
    for (const std::string& text : options_.files) {
      const DatasetName name = find_dataset_name(text);
      info_.files.push_back(name.file);
      if (is_npy_everywhere(name.file)) {
        add_npy(a_, name);
        has_npy_ = true;
        continue;
      }
      open_hdf5(name.file);
      add_dataset(a_, files_.back(), name.dataset.empty() ? options_.a : name.dataset);
    }
  }

  void open_b() {
    const DatasetName name = find_b(options_.b);
    info_.b_name = options_.b;
    if (name.file.empty()) {  // "/b" beside A in every file
      comm_.together([&] {
        require(!has_npy_, ErrorKind::kUsage,
                fmt::format("A is in a .npy file, which has no dataset {} beside it: give b as --b FILE.npy or --b "
                            "FILE.h5:/name",
                            name.dataset));
      });
      b_beside_a_ = true;
      for (const Hdf5File& file : files_) add_dataset(b_, file, name.dataset);
    } else if (is_npy_everywhere(name.file)) {
      add_npy(b_, name);
    } else {
      open_hdf5(name.file);
      add_dataset(b_, files_.back(), name.dataset.empty() ? "/b" : name.dataset);
    }
  }

  // Judging: local ------------------------------------------------------------------------------------------------

  /// With --transpose a b of two dimensions is (r, m) as MATLAB stores it, unless only (m, r) has m rows.
  void orient_b() {
    if (!options_.transpose || b_.rows() == a_.rows()) return;
    b_.set_transposed(false);
    if (b_.rows() != a_.rows()) b_.set_transposed(true);
  }

  void check_shards() const {
    for (const RowShards* shards : {&a_, &b_}) {
      const StoredFacts& first = shards->front().data->facts();
      for (const RowShards::Shard& shard : shards->shards()) {
        const StoredFacts& facts = shard.data->facts();
        // Those of b may differ in type: all become FP64.
        require(shard.cols() == shards->cols() && (shards == &b_ || facts.type == first.type), ErrorKind::kInput,
                fmt::format("row shards differ: {} is {} {}, {} is {} {}", place_text(first), type_text(first),
                            shape_text(first), place_text(facts), type_text(facts), shape_text(facts)));
      }
    }
  }

  /// What a user who mixed up rows and columns should do.
  std::string transpose_hint() const {
    if (options_.transpose) return "; leave --transpose out if it is not stored (n, m)";
    return fmt::format(
        "; if it is stored (n, m), as {} it, give --transpose",
        a_.front().data->facts().matlab ? "MATLAB, which wrote this file, stores" : "MATLAB, Julia and Fortran store");
  }

  std::string misfit_hint() const {
    if (b_.rows() == shape_.n || b_.cols() == shape_.n) return "; b fits the columns of A" + transpose_hint();
    return b_.cols() == shape_.m ? "; b seems to be stored (r, m): store it as (m) or (m, r)" : "";
  }

  void check_shapes() {
    const StoredFacts &a = a_.front().data->facts(), &b = b_.front().data->facts();
    const ElementType natural = element_type_of(a.type);
    const bool narrows = options_.data_precision == DataPrecision::kFp32 && natural == ElementType::kFloat64;
    shape_ = {a_.rows(), a_.cols(), b_.cols(), narrows ? ElementType::kFloat32 : natural};
    require(shape_.m > 0, ErrorKind::kInput, fmt::format("{} has no rows: {}", place_text(a), shape_text(a)));
    require(shape_.n > 0, ErrorKind::kInput, fmt::format("{} has no columns: {}", place_text(a), shape_text(a)));
    require(shape_.m >= shape_.n || options_.may_be_wide, ErrorKind::kUsage,
            fmt::format("A is wide: m = {} rows, n = {} columns; tallsketch solves m >= n{}", shape_.m, shape_.n,
                        transpose_hint()));
    require(b_.rows() == shape_.m, ErrorKind::kInput,
            fmt::format("A has {} rows ({}) but b has {} ({}): one entry of b a row of A is needed{}", shape_.m,
                        place_text(a), b_.rows(), place_text(b), misfit_hint()));
    require(shape_.r > 0, ErrorKind::kInput, fmt::format("{} has no columns", place_text(b)));
    for (std::size_t i = 0; b_beside_a_ && i < a_.shards().size(); ++i) {
      const RowShards::Shard &of_a = a_.shards()[i], &of_b = b_.shards()[i];
      require(of_a.rows() == of_b.rows(), ErrorKind::kInput,
              fmt::format("{} has {} rows but {} has {}: a row shard needs one entry of b a row of A",
                          place_text(of_a.data->facts()), of_a.rows(), place_text(of_b.data->facts()), of_b.rows()));
    }
  }

  void describe() {
    const StoredFacts& a = a_.front().data->facts();
    info_.a_name = a.name.empty() ? "the array" : a.name;
    info_.dtype = type_text(a);
    info_.layout = a.layout;
    if (a_.front().by_columns) info_.layout += a.fortran ? "" : ", stored (n, m)";
    info_.io_mode = a_.front().data->io_mode();
    if (const std::string of_b = b_.front().data->io_mode(); of_b != info_.io_mode) info_.io_mode += "; b: " + of_b;
    for (const RowShards* shards : {&a_, &b_}) {
      for (const RowShards::Shard& shard : shards->shards()) {
        const std::vector<std::string>& warnings = shard.data->facts().warnings;
        info_.warnings.insert(info_.warnings.end(), warnings.begin(), warnings.end());
      }
      warn_of_values(*shards, shards == &a_ ? "A" : "b");
    }
    if (shape_.a_type != element_type_of(a.type)) {
      info_.narrowing = fmt::format("{} rounded to float32, --data-precision fp32", to_word(a.type));
      info_.warnings.push_back(
          fmt::format("A is {}: x solves the rounded problem, and values beyond 3.4e38 are infinite", info_.narrowing));
    }
    warn_of_orientation(a);
  }

  void warn_of_values(const RowShards& shards, const char* matrix) {
    for (const RowShards::Shard& shard : shards.shards()) {
      const StoredType type = shard.data->facts().type;
      if (type != StoredType::kInt64 && type != StoredType::kUint64) continue;
      info_.warnings.push_back(
          fmt::format("{} is {}: integers beyond 2^53 (9.007e15) are rounded to FP64", matrix, to_word(type)));
      return;
    }
  }

  void warn_of_orientation(const StoredFacts& a) {
    if (shape_.m < shape_.n) {
      info_.warnings.push_back(
          fmt::format("A is wide here (m = {} rows, n = {} columns): right for some rows of a larger matrix{}",
                      shape_.m, shape_.n, transpose_hint()));
    } else if (shape_.m == shape_.n) {
      info_.warnings.push_back(
          fmt::format("A is square ({} x {}): read {}{}", shape_.m, shape_.n,
                      a_.front().by_columns ? "column by column (Fortran order)" : "row by row as stored (C order)",
                      options_.transpose ? "" : transpose_hint()));
    } else if (a.matlab && !options_.transpose) {
      info_.warnings.push_back(
          fmt::format("{} was written by MATLAB, which stores matrices transposed: {} x {} is what "
                      "MATLAB showed as {} x {}; --transpose reads it as MATLAB showed it",
                      place_text(a), shape_.m, shape_.n, shape_.n, shape_.m));
    }
  }

  InputOptions options_;
  const Communicator& comm_;
  std::shared_ptr<ReadTeam> team_;  // reads all files
  ProblemShape shape_;
  SourceInfo info_;
  bool has_npy_ = false;     // A, or a shard of it
  bool b_beside_a_ = false;  // a shard of b in every file of A
  std::vector<InputFile> inputs_;
  std::vector<Hdf5File> files_;  // outlive their datasets
  RowShards a_, b_;
};

}  // namespace

std::unique_ptr<RowSource> open_file_source(const InputOptions& options, const Communicator& comm,
                                            const std::function<void()>& progressed) {
  return std::make_unique<FileSource>(options, comm, progressed);
}

std::vector<std::string> input_paths(const InputOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& text : options.files) paths.push_back(find_dataset_name(text).file);
  const DatasetName b = find_b(options.b);
  if (!b.file.empty()) paths.push_back(b.file);
  return paths;
}

}  // namespace tallsketch
