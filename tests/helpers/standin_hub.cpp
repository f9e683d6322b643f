#include "tests/helpers/standin_hub.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <stdexcept>

namespace ddprun {
namespace standin {
namespace {

// As `to` on its way to the hub, as `from` behind it.
constexpr std::int32_t kEverybodyCame = -1;
constexpr std::int32_t kPeerGone = -2;
constexpr std::int32_t kFinal = -3;  // to the hub: this rank; from it: all

struct Head {
    std::int32_t rank = 0;
    std::uint32_t unused = 0;
    std::uint64_t bytes = 0;
};

struct Hello {
    std::int32_t rank = 0;
    std::int32_t ranks = 0;
};

bool write_all(int fd, const void* data, std::size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t count = ::send(fd, at, bytes, MSG_NOSIGNAL);
        if (count <= 0) return false;
        at += count;
        bytes -= static_cast<std::size_t>(count);
    }
    return true;
}

bool read_all(int fd, void* data, std::size_t bytes) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t count = ::recv(fd, at, bytes, 0);
        if (count <= 0) return false;
        at += count;
        bytes -= static_cast<std::size_t>(count);
    }
    return true;
}

bool write_message(int fd, std::int32_t rank, const void* data, std::size_t bytes) {
    const Head head{rank, 0, bytes};
    return write_all(fd, &head, sizeof head) && write_all(fd, data, bytes);
}

// In the abstract namespace, where nothing is left behind.
sockaddr_un address_of(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 2);
    return address;
}

class Hub : public std::enable_shared_from_this<Hub> {
  public:
    explicit Hub(int listener) : listener_(listener) {}
    ~Hub() {
        ::close(listener_);
        for (const auto& [rank, fd] : ranks_) ::close(fd);
    }

    void run() {
        int expected = 1;
        for (int came = 0; came < expected; ++came) {
            const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            Hello hello;
            if (fd < 0 || !read_all(fd, &hello, sizeof hello)) return;
            expected = hello.ranks;
            {
                const std::lock_guard lock(mutex_);
                ranks_[hello.rank] = fd;
            }
            std::thread([self = shared_from_this(), rank = hello.rank, fd] {
                self->serve(rank, fd);
            }).detach();
        }
        tell_all(kEverybodyCame, -1);
    }

  private:
    void serve(int rank, int fd) {
        Head head;
        Bytes bytes;
        while (read_all(fd, &head, sizeof head)) {
            bytes.resize(head.bytes);
            if (!read_all(fd, bytes.data(), bytes.size())) break;
            if (head.rank == kFinal) {
                count_final();
                continue;
            }
            const std::lock_guard lock(mutex_);
            write_message(ranks_.at(head.rank), rank, bytes.data(), bytes.size());
        }
        tell_all(kPeerGone, rank);
    }

    void count_final() {
        {
            const std::lock_guard lock(mutex_);
            if (++final_ < ranks_.size()) return;
        }
        tell_all(kFinal, -1);
    }

    void tell_all(std::int32_t what, int except) {
        const std::lock_guard lock(mutex_);
        for (const auto& [rank, fd] : ranks_) {
            if (rank != except) write_message(fd, what, nullptr, 0);
        }
    }

    int listener_;
    std::mutex mutex_;
    std::map<int, int> ranks_;
    std::size_t final_ = 0;
};

}  // namespace

std::string open_hub() {
    std::random_device random;
    const std::string name = "ddprun-standin-" + std::to_string(::getpid()) + '-' + std::to_string(random());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(name);
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(fd, 64) != 0) {
        ::close(fd);
        throw std::runtime_error("no hub");
    }
    std::thread([hub = std::make_shared<Hub>(fd)] { hub->run(); }).detach();
    return name;
}

HubLink::HubLink(const std::string& name, int rank, int ranks, std::function<void()> lost)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), lost_(std::move(lost)) {
    const sockaddr_un address = address_of(name);
    const Hello hello{rank, ranks};
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        !write_all(fd_, &hello, sizeof hello)) {
        ::close(fd_);
        throw std::runtime_error("the hub is gone");
    }
    std::thread([this] { run(); }).detach();
}

bool HubLink::wait_until_complete() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || complete_; });
    return complete_;
}

void HubLink::say_final() { send(kFinal, nullptr, 0); }

bool HubLink::wait_until_all_final() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || peer_gone_ || all_final_; });
    return all_final_;
}

void HubLink::send(int peer, const void* data, std::size_t bytes) {
    const std::lock_guard lock(send_mutex_);
    write_message(fd_, peer, data, bytes);
}

std::optional<Bytes> HubLink::recv(int peer) {
    std::unique_lock lock(mutex_);
    auto& messages = inbox_[peer];
    changed_.wait(lock, [&] { return stopped_ || !messages.empty(); });
    if (messages.empty()) return std::nullopt;
    Bytes message = std::move(messages.front());
    messages.pop_front();
    return message;
}

void HubLink::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    changed_.notify_all();
    ::shutdown(fd_, SHUT_RDWR);
}

void HubLink::run() {
    Head head;
    while (read_all(fd_, &head, sizeof head)) {
        Bytes bytes(head.bytes);
        if (!read_all(fd_, bytes.data(), bytes.size())) break;
        if (head.rank == kPeerGone) lost_();
        {
            const std::lock_guard lock(mutex_);
            if (head.rank == kPeerGone) {
                peer_gone_ = true;
            } else if (head.rank == kEverybodyCame) {
                complete_ = true;
            } else if (head.rank == kFinal) {
                all_final_ = true;
            } else {
                inbox_[head.rank].push_back(std::move(bytes));
            }
        }
        changed_.notify_all();
    }
    lost_();
}

}  // namespace standin
}  // namespace ddprun
