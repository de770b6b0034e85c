// tallsketch sketch: writes the sketch of some rows of a matrix, or adds such files together.

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "drivers/commands.h"
#include "drivers/output_files.h"
#include "drivers/reported_run.h"
#include "src/atomic_file.h"
#include "src/communicator.h"
#include "src/file_source.h"
#include "src/row_ranges.h"
#include "src/sketch_file.h"
#include "src/sketching.h"
#include "src/text.h"

namespace tallsketch {

namespace {

void tell_sketch(const StoredSketch& sketch, const std::string& output, Progress& progress) {
  progress.line(fmt::format("sketch: {} x {} {}, of rows {}, written to {}", sketch.spec.d, sketch.n + sketch.r,
                            sketch.spec.precision == SketchPrecision::kFp64 ? "float64" : "float32",
                            describe(sketch.rows), output));
}

void check_merge(const SketchFileOptions& options) {
  require(options.sketch.given.empty(), ErrorKind::kUsage,
          fmt::format("{} shapes a sketch that is made, and --merge adds sketches as they are: leave it out",
                      options.sketch.given.empty() ? "" : options.sketch.given.front()));
  require(!options.input.files.empty(), ErrorKind::kUsage, "--merge needs the sketch files that it adds, as FILEs");
  require(!options.first_row && options.total_rows == 0, ErrorKind::kUsage,
          "--first-row and --total-rows belong to a sketch that is made; sketch files know their rows: leave them out");
  require(options.checkpoint.path.empty(), ErrorKind::kUsage,
          "--checkpoint saves passes over A, and --merge makes none: leave it out");
  require(options.output.empty(), ErrorKind::kUsage,
          fmt::format("--merge '{}' is the output; leave --output '{}' out", options.merge, options.output));
}

/// Contiguous input blocks depend on the number of rows of the whole matrix.
void check_place(const SketchFileOptions& options) {
  const bool contiguous = options.sketch.input_blocks == InputBlocks::kContiguous;
  require(!contiguous || !options.first_row || options.total_rows > 0, ErrorKind::kUsage,
          "--input-blocks contiguous are parts of the whole matrix: with --first-row give its number of rows as "
          "--total-rows, too, or use --input-blocks interleaved");
}

}  // namespace

int run_sketch(const SketchFileOptions& options, const Communicator& comm) {
  ReportedRun run(comm, options.run, options.report, options.command_line);
  const bool merges = !options.merge.empty();
  const std::string output = merges                   ? options.merge
                             : options.output.empty() ? default_output(options.input, options.synthetic, ".sketch.h5")
                                                      : options.output;
  run.report.solver.method = "none";
  run.report.solver.reason = "a sketch, no x";
  run.report.sketch_file = output;
  const std::int64_t first_row = options.first_row.value_or(0);
  StoredSketch sketch;
  run.attempt([&] {
    comm.together([&] {
      if (merges) {
        check_merge(options);
      } else {
        check_place(options);
      }
    });
    const auto check_files = [&] {
      comm.together([&] {
        if (!comm.is_root()) return;
        check_outputs(merges ? options.input.files : input_paths(options.input),
                      {{merges ? "--merge" : "--output", output},
                       {"--report", options.report},
                       {"--checkpoint", options.checkpoint.path}});
      });
    };
    if (merges) {
      check_files();
      run.watchdog.enter("merge");
      comm.together([&] {
        if (!comm.is_root()) return;
        sketch = merged_sketches(options.input.files);
        run.report.shape = sketch.shape();
        run.report.source.files = options.input.files;
        run.report.source.dtype = to_word(sketch.a_type);
        run.report.sketch = sketch.spec;
        run.report.sketch_rows = sketch.rows;
        run.report.solver.check_rows = sketch.check_rows;
      });
    } else {
      InputOptions input = options.input;
      input.may_be_wide = true;
      run.open(input, options.synthetic);
      check_files();
      std::vector<IdentityField> fields = run_fields(*run.source.rows, options.sketch, {});
      fields.push_back({"--first-row", fmt::to_string(first_row)});
      fields.push_back({"--total-rows", fmt::to_string(options.total_rows)});
      run.keep_checkpoints(options.checkpoint, std::move(fields), options.sketch);
      run.start_backend();
      sketch = sketch_rows_of(options.sketch, {first_row, options.total_rows}, options.run.chunk_rows, *run.source.rows,
                              *run.backend, run.context(), run.report);
    }
    run.write("sketched", [&] { write_file_atomically(output, sketch_image(sketch, options.command_line)); });
  });
  return run.finish([&] { tell_sketch(sketch, output, run.progress); },
                    fmt::format("the sketch is complete in '{}'", output));
}

}  // namespace tallsketch
