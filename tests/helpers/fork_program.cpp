// A rank that forks children while it has communicators, operations in flight, and all that comes with them.
//
//   fork_program MODE [CHILDREN]
//
// The children, one after the other, do what MODE says, and the rank goes on as if nothing had been:
//   destroy   destroy their copies of everything
//   exit      call exit(), with a communicator in static storage
//   use       call everything, which must be refused, and destroy it
//   make      make a communicator of their own, besides
//   look      look for sockets and events of the library among their descriptors, while a thread of the rank
//             makes and destroys communicators
//   spawn     are started by system(), posix_spawn() and vfork()
// Prints "ok", or what run_rank_program() says. A child tells by its exit code what is wrong.
#include <dirent.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "collectives/grad_buckets.hpp"
#include "collectives/group.hpp"
#include "collectives/training.hpp"
#include "tests/support/rank_program.hpp"

using namespace ddprun;

namespace {

constexpr std::size_t kCount = 100'000;

void require(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

// In static storage, so that exit() destroys it.
Communicator& whole() {
    static const auto owner = std::make_unique<Communicator>(Communicator::from_env());
    return *owner;
}

// With NCCL buffers would have to be the device's.
bool has_host_memory() { return whole().backend() == BackendChoice::cpu; }

struct Everything {
    std::optional<Communicator> part = whole().split(0);
    SharedBuffer<float> shared = has_host_memory() ? part->allocate<float>(kCount) : SharedBuffer<float>();
    std::vector<std::size_t> sizes{10, kCount};
    std::optional<GradBuckets<float>> gradients;
    Group group{*part};
    std::vector<float> data = std::vector<float>(kCount);
    Work work;

    Everything() {
        if (has_host_memory()) gradients.emplace(*part, sizes);
    }

    // What is in flight while the rank forks.
    void start() {
        if (!has_host_memory()) {
            work = part->async().barrier();
            return;
        }
        data.assign(kCount, static_cast<float>(part->rank() + 1));
        std::fill(shared.span().begin(), shared.span().end(), 7.0F);
        gradients->mark_ready(1);
        work = part->async().all_reduce(std::span(data), ReduceOp::sum);
    }
    void finish() {
        work.wait();
        whole().barrier();
        if (!has_host_memory()) return;
        gradients->mark_ready(0);
        gradients->wait_all();
        const int n = part->world_size();
        require(std::ranges::count(shared.span(), 7.0F) == static_cast<std::ptrdiff_t>(kCount),
                "the memory is as it was");
        require(data == std::vector<float>(kCount, static_cast<float>(n * (n + 1) / 2)), "the sum is right");
    }
};

void expect_refused(const char* what, const std::function<void()>& call) {
    try {
        call();
    } catch (const CollectiveError& error) {
        const bool is_right = error.code() == CollectiveErrorCode::invalid_argument &&
                              std::string(error.what()).find("another process") != std::string::npos;
        require(is_right, std::string(what) + " ended with: " + error.what());
        return;
    }
    throw std::runtime_error(std::string(what) + " was not refused");
}

void use(Communicator& comm) {
    std::vector<float> data(10);
    const auto reduce = [&](auto&& operations) {
        return operations.all_reduce(std::span(data), ReduceOp::sum);
    };
    expect_refused("all_reduce", [&] { reduce(comm); });
    expect_refused("async", [&] { reduce(comm.async()); });
    expect_refused("attempt", [&] { reduce(comm.attempt()).throw_if_failed(); });
    expect_refused("status", [&] { comm.status().throw_if_failed(); });
    expect_refused("barrier", [&] { comm.barrier(); });
    expect_refused("split", [&] { comm.split(0); });
    expect_refused("shrink", [&] { comm.shrink({}); });
    expect_refused("allocate", [&] { comm.allocate<float>(1); });
    expect_refused("abort", [&] { comm.abort("in a child"); });
    expect_refused("finalize", [&] { comm.finalize(); });
    Group group(comm);
    const int peer = (comm.rank() + 1) % comm.world_size();
    const auto fill = [&] { group.send(std::span(data), peer); };
    fill();
    expect_refused("Group::run", [&] { group.run(); });
    fill();
    expect_refused("Group::start", [&] { group.start(); });
    fill();
    expect_refused("Group::attempt", [&] { group.attempt().throw_if_failed(); });
    if (comm.backend() != BackendChoice::cpu) return;
    expect_refused("average", [&] { average(comm, 1.0); });
    expect_refused("run_on_rank", [&] {
        run_on_rank(comm, comm.rank(), [] { throw std::runtime_error("the action was begun"); });
    });
}

void use(Everything& all) {
    use(whole());
    use(*all.part);
    expect_refused("Work::wait", [&] { all.work.wait(); });
    expect_refused("Work::wait_for", [&] { all.work.wait_for(std::chrono::milliseconds(1)); });
    expect_refused("Work::error", [&] { throw all.work.error().value(); });
    require(all.work.test(), "a work of the parent's has ended");
    if (!all.gradients) return;
    expect_refused("mark_ready", [&] { all.gradients->mark_ready(0); });
    expect_refused("wait_all", [&] { all.gradients->wait_all(); });
}

std::string target_of(int fd) {
    char target[256] = {};
    const auto link = "/proc/self/fd/" + std::to_string(fd);
    return ::readlink(link.c_str(), target, sizeof(target) - 1) > 0 ? target : "";
}

// The client of the store is not the collectives' own.
bool leads_to_store(int fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
    const auto port = ntohs(reinterpret_cast<const sockaddr_in&>(peer).sin_port);
    return std::to_string(port) == std::getenv("MASTER_PORT");
}

void look() {
    DIR* listing = ::opendir("/proc/self/fd");
    require(listing != nullptr, "the descriptors can be listed");
    while (const dirent* entry = ::readdir(listing)) {
        const int fd = std::atoi(entry->d_name);
        const std::string target = target_of(fd);
        const bool is_ours = target.starts_with("socket:") || target == "anon_inode:[eventfd]";
        require(!is_ours || leads_to_store(fd), "descriptor " + std::to_string(fd) + " is " + target);
    }
    ::closedir(listing);
}

[[noreturn]] void be_child(const std::string& mode, std::unique_ptr<Everything> all) {
    try {
        if (mode == "exit") std::exit(0);
        if (mode == "use") use(*all);
        if (mode == "look") look();
        if (mode == "make") {
            Communicator own = Communicator::connect("tcp://127.0.0.1:1", 0, 1);
            own.async().barrier().wait();
            own.finalize();
        }
        all.reset();
        const Communicator gone = std::move(whole());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "in the child: %s\n", error.what());
        ::_exit(1);
    }
    ::_exit(0);
}

void require_good_end(pid_t child) {
    int status = -1;
    require(::waitpid(child, &status, 0) == child && status == 0,
            "a child ended with status " + std::to_string(status));
}

void spawn_children() {
    require(WEXITSTATUS(std::system("exit 7")) == 7, "system() works");
    std::string path = "/bin/true";
    char* arguments[] = {path.data(), nullptr};
    pid_t child = -1;
    require(::posix_spawn(&child, path.c_str(), nullptr, nullptr, arguments, nullptr) == 0,
            "posix_spawn() works");
    require_good_end(child);
    child = ::vfork();
    if (child == 0) ::_exit(0);
    require_good_end(child);
}

// Makes and destroys communicators of all ranks, in step with the other ranks' threads, until all have had
// enough.
class Restless {
  public:
    Restless() : thread_([this] { run(); }) {}
    void stop() {
        enough_ = true;
        thread_.join();
    }

  private:
    void run() {
        float going_on = 1;
        while (going_on > 0) {
            going_on = enough_ ? 0 : 1;
            auto made = comm_->split(0, comm_->rank());
            made->all_reduce(std::span(&going_on, 1), ReduceOp::max);
        }
    }

    std::optional<Communicator> comm_ = whole().split(0);
    std::atomic<bool> enough_{false};
    std::thread thread_;
};

void run(const std::vector<std::string>& arguments) {
    const std::string& mode = arguments.at(0);
    const int children = arguments.size() > 1 ? std::stoi(arguments[1]) : 1;
    auto all = std::make_unique<Everything>();
    std::optional<Restless> restless;
    if (mode == "look") restless.emplace();
    for (int i = 0; i < children; ++i) {
        all->start();
        if (mode == "spawn") {
            spawn_children();
        } else {
            const pid_t child = ::fork();
            if (child == 0) be_child(mode, std::move(all));
            require_good_end(child);
        }
        all->finish();
    }
    if (restless) restless->stop();
    restless.reset();
    all->part->finalize();
    whole().finalize();
    std::printf("ok\n");
}

}  // namespace

int main(int argc, char** argv) { return run_rank_program(argc, argv, run); }
