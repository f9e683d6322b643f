#include "launcher/output/output_pump.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>

#include "launcher/output/pump_loop.hpp"
#include "launcher/output/worker_channel.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {

namespace asio = boost::asio;

namespace {

StreamTarget target(const OwnedDescriptor& fd) {
    if (fd) return GivenDescriptor{fd.get()};
    return Stdio::null;
}

}  // namespace

// The thread's answer. The timer has its handler called, whether the answer comes or takes too long, and
// keeps the executor at work until then.
struct OutputPump::Answer {
    asio::steady_timer timer;
    std::vector<std::string> lines = {};
};

// The Gate stands between the thread and the agent's executor, which may be gone before a thread that hangs.
class OutputPump::Gate {
  public:
    explicit Gate(asio::any_io_executor executor) : executor_(std::move(executor)) {}

    template <typename Handler>
    void post(Handler&& handler) {
        std::lock_guard lock(mutex_);
        if (open_) asio::post(executor_, std::forward<Handler>(handler));
    }

    // Calls the function here and now, unless the gate is closed; it is not closed meanwhile.
    template <typename Function>
    void call(Function&& function) {
        std::lock_guard lock(mutex_);
        if (open_) std::forward<Function>(function)();
    }

    void give(const std::weak_ptr<Answer>& answer, std::vector<std::string> lines) {
        post([answer, lines = std::move(lines)] {
            const auto asked = answer.lock();
            if (!asked) return;
            asked->lines = lines;
            asked->timer.cancel();
        });
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
    loop_ = std::make_shared<PumpLoop>(settings_.out_fd, settings_.err_fd,
                                       [gate = gate_, notice = on_notice_](std::string text) {
                                           gate->post([notice, text = std::move(text)] { notice(text); });
                                       });
    loop_->start();
}

OutputPump::~OutputPump() { stop(); }

void OutputPump::begin_round(const RoundIdentity& identity) {
    round_ = identity;
    pipes_ = 0;
    loop_->raised().clear();
    filtered_out_.reset();
    filtered_err_.reset();
    const std::string run_before = folder_.run();
    const PathFacts facts{identity.start_unix_s, identity.run_id, identity.host,
                          identity.is_alone ? -1 : identity.node_rank};
    try {
        round_folder_ = folder_.round(facts, identity.round);
    } catch (const Error& error) {
        // The user has named another place; this one was our choice, and no reason to run nothing.
        if (!plan_.log_dir.empty() && !has_had_files_) throw;
        round_folder_.clear();
        do_without_files(error.what());
    }
    has_had_files_ = has_had_files_ || !round_folder_.empty();
    if (round_folder_.empty()) return;
    if (settings_.in_run_folder && folder_.run() != run_before) {
        run([work = settings_.in_run_folder,
             folder = RunFolder{folder_.run(), identity.job_id, identity.node_rank}] {
            return work(folder);
        });
    }
    const auto make = [this](OutputStream stream) -> std::shared_ptr<LogFile> {
        if (plan_.filters(stream).empty()) return nullptr;
        const std::string name = "/filtered_" + std::string(stream_name(stream)) + ".log";
        return std::make_shared<LogFile>(round_folder_ + name, plan_.log_max);
    };
    filtered_out_ = make(OutputStream::out);
    filtered_err_ = make(OutputStream::err);
}

// The thread is woken once for all.
std::vector<WorkerStreams> OutputPump::open(int local_rank, int rank, int workers) {
    std::vector<WorkerStreams> ends;
    std::vector<PumpLoop::Worker> opened;
    for (int i = 0; i < workers; ++i)
        ends.push_back(open_one(local_rank + i, rank + i, opened.emplace_back()));
    loop_->post([loop = loop_.get(), opened = std::move(opened)] {
        for (const PumpLoop::Worker& worker : opened) loop->add(worker);
    });
    return ends;
}

WorkerStreams OutputPump::open_one(int local_rank, int rank, std::shared_ptr<PumpWorker>& worker) {
    WorkerStreams ends;
    const std::string folder = worker_folder(local_rank);
    ends.error_file = folder_.error_file(folder, local_rank);

    worker = std::make_shared<PumpWorker>(loop_->context(), local_rank);
    auto& printed = printed_[local_rank];
    if (!printed) printed = std::make_shared<std::atomic<std::uint64_t>>(0);
    for (OutputStream stream : {OutputStream::out, OutputStream::err}) {
        OutputRouteParts parts = route_parts(local_rank, rank, stream, folder);
        // The end of stderr is kept for the report in any case.
        const bool wanted =
            stream == OutputStream::err || parts.console || parts.file || parts.filtered || parts.on_line;
        if (!wanted) continue;
        const int console_fd = stream == OutputStream::out ? settings_.out_fd : settings_.err_fd;
        const bool terminal = parts.console != nullptr && parts.console->writer.is_terminal();
        const int pipe_size = pipes_++ < kLargePipes ? kLargePipeSize : kPipeSize;
        WorkerChannel channel =
            terminal ? make_terminal_channel(console_fd, pipe_size) : make_pipe_channel(pipe_size);
        (stream == OutputStream::out ? ends.out : ends.err) = std::move(channel.writer);
        worker->streams.push_back(
            {{loop_->context(), channel.reader.release()}, OutputRoute(std::move(parts)), printed});
        // It does not block already, but Asio would ask again.
        worker->streams.back().reader.non_blocking(true);
    }
    return ends;
}

// It is empty where it cannot be made.
std::string OutputPump::worker_folder(int local_rank) {
    if (round_folder_.empty()) return {};
    try {
        return folder_.worker(round_folder_, local_rank);
    } catch (const Error& error) {
        do_without_files(error.what());
        return {};
    }
}

void OutputPump::do_without_files(const std::string& why) {
    const std::string instead = plan_.wants_logs() ? "; what should be in files is shown here" : "";
    asio::post(executor_, [tell = on_notice_, notice = why + "; workers get no error files" + instead] {
        tell(notice);
    });
}

OutputRouteParts OutputPump::route_parts(int local_rank, int rank, OutputStream stream,
                                         const std::string& folder) {
    const StreamPlan plan = plan_.stream(local_rank, rank, stream);
    const std::string name(stream_name(stream));
    const LineOrigin origin{round_.host, round_.role, name, rank, local_rank};
    OutputRouteParts parts;
    parts.number = next_stream_++;
    if (plan.to_console || (plan.to_file && folder.empty())) parts.console = &loop_->console(stream);
    parts.prefix = plan.prefix.with(origin);
    if (plan.to_file && !folder.empty()) {
        parts.file = std::make_unique<LogFile>(folder + "/" + name + ".log", plan_.log_max);
    }
    parts.filtered = stream == OutputStream::out ? filtered_out_ : filtered_err_;
    parts.filters = plan_.filters(stream);
    parts.header = plan_.tee_header.with(origin);
    parts.keeps_last_lines = stream == OutputStream::err;
    if (parts.keeps_last_lines) parts.raised = &loop_->raised();
    // A file has all of it.
    if (parts.file == nullptr) parts.kept = &loop_->kept();
    parts.rank = rank;
    parts.stream = stream;
    if (!settings_.on_line) return parts;
    parts.on_line = [gate = gate_, watcher = settings_.on_line, rank, stream](std::string_view text) {
        gate->call([&] { watcher(rank, stream, text); });
    };
    return parts;
}

std::weak_ptr<OutputPump::Answer> OutputPump::await_answer(
    std::chrono::milliseconds timeout, std::function<void(std::vector<std::string>)> done) {
    auto answer = std::make_shared<Answer>(Answer{asio::steady_timer(executor_, timeout)});
    answer->timer.async_wait(
        [answer, done = std::move(done)](boost::system::error_code) { done(std::move(answer->lines)); });
    return answer;
}

void OutputPump::last_lines(int local_rank, std::function<void(std::vector<std::string>)> done) {
    loop_->post([loop = loop_.get(), gate = gate_, local_rank,
                 answer = await_answer(kAnswerTimeout, std::move(done))] {
        gate->give(answer, loop->last_lines(local_rank));
    });
}

void OutputPump::read_kept(const KeptQuestion& question, KeptReaders::Done done) {
    loop_->post([loop = loop_.get(), gate = gate_, question, done = std::move(done)] {
        loop->kept_readers().ask(question, [gate, done](KeptPiece piece) {
            gate->post([done, piece = std::move(piece)]() mutable { done(std::move(piece)); });
        });
    });
}

void OutputPump::read_errors(std::function<void()> done) {
    auto answer = await_answer(kAnswerTimeout, [done = std::move(done)](const auto&) { done(); });
    loop_->post([loop = loop_.get(), gate = gate_, answer] {
        loop->read_errors();
        gate->give(answer, {});
    });
}

std::vector<RaisedRank> OutputPump::raised_within(std::chrono::milliseconds time) const {
    return loop_->raised().since(std::chrono::steady_clock::now() - time);
}

std::uint64_t OutputPump::printed_by(int local_rank) const {
    const auto printed = printed_.find(local_rank);
    return printed == printed_.end() ? 0 : printed->second->load();
}

void OutputPump::finish(int local_rank, std::function<void()> done) {
    auto answer =
        await_answer(kDrainTimeout + kAnswerTimeout, [done = std::move(done)](const auto&) { done(); });
    loop_->post([loop = loop_.get(), gate = gate_, local_rank, answer] {
        loop->finish(local_rank, [gate, answer] { gate->give(answer, {}); });
    });
}

void OutputPump::replay_stderr(int local_rank) {
    loop_->post([loop = loop_.get(), local_rank] { loop->replay_stderr(local_rank); });
}

void OutputPump::announce(std::string line) {
    loop_->post([loop = loop_.get(), line = std::move(line)] { loop->announce(line); });
}

void OutputPump::pass(std::string line) {
    loop_->post([loop = loop_.get(), line = std::move(line)] { loop->pass(line); });
}

void OutputPump::run(std::function<std::optional<std::string>()> work) {
    loop_->post([loop = loop_.get(), work = std::move(work)] {
        if (auto notice = work()) loop->tell(std::move(*notice));
    });
}

void OutputPump::window_changed() {
    loop_->post([loop = loop_.get()] { loop->window_changed(); });
}

void OutputPump::drain(std::function<void()> done, std::chrono::milliseconds timeout) {
    loop_->post([loop = loop_.get(), gate = gate_, done = std::move(done), timeout] {
        loop->drain([gate, done] { gate->post(done); }, timeout);
    });
}

bool OutputPump::leaves_open_line() const {
    return stopped_ && !hangs_ && loop_->console(OutputStream::err).text.has_open_line();
}

std::vector<std::string> OutputPump::stop() {
    if (std::exchange(stopped_, true)) return {};
    loop_->post([loop = loop_.get()] { loop->end(); });
    hangs_ = !loop_->wait_for_end(kStopTimeout);
    gate_->close();
    if (hangs_) return {"the output of the workers may be incomplete: a write to it hangs"};
    return loop_->losses();
}

}  // namespace launch
}  // namespace ddprun
