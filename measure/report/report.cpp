#include "report.h"

#include <filesystem>

#include "../../tensor/core/error.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "recorder.h"

namespace mezzo::amp {

namespace {

ReportOptions checked(ReportOptions options, const ReportFile& file) {
  if (options.every <= 0)
    fail<ValueError>("amp::Report", {.what = "every must be positive",
                                     .got = str(options.every),
                                     .expected = "the number of steps between samples"});
  if (options.title.empty()) options.title = std::filesystem::path(file.lines_path()).stem();
  return options;
}

}  // namespace

Report::Report(const Training& training, const std::string& path, const ReportOptions& options)
    : own_file_(new ReportFile(path)),
      recorder_(std::make_shared<Recorder>(training, *own_file_, checked(options, *own_file_))) {
  for (const auto& optimizer : training.optimizer) optimizer.object->add_step_hook(recorder_.ptr());
}

Report::Report(const nn::Module& model, optim::Optimizer& optimizer, Session& session,
               const std::string& path, const ReportOptions& options)
    : Report(Training{.model = model, .optimizer = optimizer, .session = session}, path, options) {}

Report::Report(const nn::Module& model, optim::Optimizer& optimizer, const std::string& path,
               const ReportOptions& options)
    : Report(Training{.model = model, .optimizer = optimizer}, path, options) {}

Report::Report(const Training& training, ReportFile& file, const ReportOptions& options)
    : recorder_(std::make_shared<Recorder>(training, file, checked(options, file))) {
  for (const auto& optimizer : training.optimizer) optimizer.object->add_step_hook(recorder_.ptr());
}

Report::~Report() {
  try {
    close();
  } catch (const std::exception& e) {
    log_text(Severity::error, e.what());
  }
}

void Report::log(const std::string& name, double value) { recorder_->log(name, value); }

void Report::close() {
  recorder_->finish();
  if (own_file_) own_file_->close();
}

}  // namespace mezzo::amp
