#include "launcher/output/output_pump.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>

#include "launcher/output/pump_loop.hpp"
#include "launcher/output/worker_channel.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {

namespace asio = boost::asio;

namespace {

StreamTarget target(const OwnedDescriptor& fd) {
    if (fd) return GivenDescriptor{fd.get()};
    return Stdio::null;
}

// One answer of the thread, given on the agent's executor: once, and without the thread if that takes too
// long. Its timer also keeps the executor at work until then.
template <typename Value>
class Answer : public std::enable_shared_from_this<Answer<Value>> {
  public:
    Answer(const asio::any_io_executor& executor, std::function<void(Value)> done)
        : timer_(executor), done_(std::move(done)) {}

    void limit(std::chrono::milliseconds patience) {
        timer_.expires_after(patience);
        timer_.async_wait([self = this->shared_from_this()](boost::system::error_code) { self->give({}); });
    }

    void give(Value value) {
        if (auto done = std::exchange(done_, nullptr)) done(std::move(value));
        timer_.cancel();
    }

  private:
    asio::steady_timer timer_;
    std::function<void(Value)> done_;
};

struct Nothing {};

}  // namespace

// Between the thread and the agent's executor, which may be gone before a thread that hangs.
class OutputPump::Gate {
  public:
    explicit Gate(asio::any_io_executor executor) : executor_(std::move(executor)) {}

    template <typename Handler>
    void post(Handler&& handler) {
        std::lock_guard lock(mutex_);
        if (open_) asio::post(executor_, std::forward<Handler>(handler));
    }

    void close() {
        std::lock_guard lock(mutex_);
        open_ = false;
    }

  private:
    std::mutex mutex_;
    bool open_ = true;
    asio::any_io_executor executor_;
};

StreamTarget WorkerStreams::standard_output() const { return target(out); }
StreamTarget WorkerStreams::standard_error() const { return target(err); }

OutputPump::OutputPump(const asio::any_io_executor& executor, OutputPlan plan, OutputPumpSettings settings,
                       std::function<void(const std::string&)> on_notice)
    : executor_(executor),
      plan_(std::move(plan)),
      settings_(std::move(settings)),
      on_notice_(std::move(on_notice)),
      folder_(plan_, settings_.temporary_folder),
      gate_(std::make_shared<Gate>(executor)) {
    const PumpTimes times{kDrainPatience, kUpdateInterval};
    loop_ = std::make_shared<PumpLoop>(settings_.out_fd, settings_.err_fd, times,
                                       [gate = gate_, notice = on_notice_](std::string text) {
                                           gate->post([notice, text = std::move(text)] { notice(text); });
                                       });
    loop_->start();
}

OutputPump::~OutputPump() { stop(); }

void OutputPump::begin_round(const RoundIdentity& identity) {
    round_ = identity;
    pipes_ = 0;
    filtered_out_.reset();
    filtered_err_.reset();
    try {
        round_folder_ = folder_.attempt(identity.run_id, identity.attempt);
    } catch (const Error& error) {
        // Nobody asked for files; only error files of workers would have been there.
        if (plan_.wants_logs() || !plan_.log_dir.empty()) throw;
        round_folder_.clear();
        tell(std::string(error.what()) + "; workers get no error files");
    }
    if (round_folder_.empty()) return;
    const auto make = [this](OutputStream stream) -> std::shared_ptr<LogFile> {
        if (plan_.filters(stream).empty()) return nullptr;
        const std::string name = "/filtered_" + std::string(stream_name(stream)) + ".log";
        return std::make_shared<LogFile>(round_folder_ + name, plan_.log_max);
    };
    filtered_out_ = make(OutputStream::out);
    filtered_err_ = make(OutputStream::err);
}

WorkerStreams OutputPump::open(int local_rank, int rank) {
    WorkerStreams ends;
    const std::string folder =
        round_folder_.empty() ? std::string() : folder_.worker(round_folder_, local_rank);
    ends.error_file = folder_.error_file(folder, local_rank);

    auto worker = std::make_shared<PumpWorker>();
    worker->local_rank = local_rank;
    for (OutputStream stream : {OutputStream::out, OutputStream::err}) {
        OutputRouteParts parts = route_parts(local_rank, rank, stream, folder);
        // The end of stderr is kept for the report in any case.
        const bool wanted = stream == OutputStream::err || parts.console || parts.file || parts.filtered;
        if (!wanted) continue;
        const int console_fd = stream == OutputStream::out ? settings_.out_fd : settings_.err_fd;
        const bool terminal = parts.console != nullptr && parts.console->writer.is_terminal();
        const int pipe_size = pipes_++ < kLargePipes ? kLargePipeSize : kPipeSize;
        WorkerChannel channel =
            terminal ? make_terminal_channel(console_fd, pipe_size) : make_pipe_channel(pipe_size);
        (stream == OutputStream::out ? ends.out : ends.err) = std::move(channel.writer);
        worker->streams.push_back(
            {std::move(channel.reader), OutputRoute(std::move(parts)), channel.is_terminal, std::nullopt});
    }
    loop_->post([loop = loop_.get(), worker] { loop->add(std::move(*worker)); });
    return ends;
}

OutputRouteParts OutputPump::route_parts(int local_rank, int rank, OutputStream stream,
                                         const std::string& folder) {
    const StreamPlan plan = plan_.stream(local_rank, rank, stream);
    const std::string name(stream_name(stream));
    const LineOrigin origin{round_.host, round_.role, name, rank, local_rank};
    OutputRouteParts parts;
    parts.number = next_stream_++;
    if (plan.to_console) parts.console = &loop_->console(stream);
    parts.prefix = plan.prefix.with(origin);
    if (plan.to_file && !folder.empty()) {
        parts.file = std::make_unique<LogFile>(folder + "/" + name + ".log", plan_.log_max);
    }
    parts.filtered = stream == OutputStream::out ? filtered_out_ : filtered_err_;
    parts.filters = plan_.filters(stream);
    parts.header = plan_.tee_header.with(origin);
    parts.keeps_last_lines = stream == OutputStream::err;
    return parts;
}

void OutputPump::last_lines(int local_rank, std::function<void(std::vector<std::string>)> done) {
    auto answer = std::make_shared<Answer<std::vector<std::string>>>(executor_, std::move(done));
    answer->limit(kAnswerPatience);
    loop_->post([loop = loop_.get(), gate = gate_, local_rank, answer] {
        gate->post([answer, lines = loop->last_lines(local_rank)] { answer->give(lines); });
    });
}

void OutputPump::finish(int local_rank, std::function<void()> done) {
    auto answer = std::make_shared<Answer<Nothing>>(executor_, [done = std::move(done)](Nothing) { done(); });
    answer->limit(kDrainPatience + kAnswerPatience);
    loop_->post([loop = loop_.get(), gate = gate_, local_rank, answer] {
        loop->finish(local_rank, [gate, answer] { gate->post([answer] { answer->give({}); }); });
    });
}

void OutputPump::replay_stderr(int local_rank) {
    loop_->post([loop = loop_.get(), local_rank] { loop->replay_stderr(local_rank); });
}

void OutputPump::announce(std::string line) {
    loop_->post([loop = loop_.get(), line = std::move(line)] { loop->announce(line); });
}

void OutputPump::window_changed() {
    loop_->post([loop = loop_.get()] { loop->window_changed(); });
}

void OutputPump::drain(std::function<void()> done, std::chrono::milliseconds patience) {
    loop_->post([loop = loop_.get(), gate = gate_, done = std::move(done), patience] {
        loop->drain([gate, done] { gate->post(done); }, patience);
    });
}

std::vector<std::string> OutputPump::stop() {
    if (std::exchange(stopped_, true)) return {};
    loop_->post([loop = loop_.get()] { loop->end(); });
    const bool ended = loop_->wait_for_end(kStopPatience);
    gate_->close();
    if (!ended) return {"the output of the workers may be incomplete: a write to it hangs"};
    return loop_->losses();
}

void OutputPump::tell(const std::string& notice) {
    asio::post(executor_, [tell = on_notice_, notice] { tell(notice); });
}

}  // namespace ddprun
