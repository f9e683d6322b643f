#include "rendezvous/net/resolver.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace base {
namespace asio = boost::asio;

namespace {

Resolved ask_resolver(const std::string& host) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
        return std::string(error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
    std::vector<std::string> addresses;
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
        const std::string address = numeric_host(entry->ai_addr);
        if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
            addresses.push_back(address);
    }
    return addresses;
}

bool is_numeric(const std::string& host) {
    boost::system::error_code is_name;
    asio::ip::make_address(host, is_name);
    return !is_name;
}

// Asks by a thread of its own, which calls `then` behind the answer. Where there can be no thread the caller
// asks.
std::future<Resolved> ask_apart(const std::string& host, std::function<void()> then) {
    const auto answer = std::make_shared<std::promise<Resolved>>();
    const auto ask = [answer, host, then = std::move(then)] {
        answer->set_value(ask_resolver(host));
        if (then) then();
    };
    try {
        start_without_signals(ask).detach();
    } catch (const std::system_error&) {
        ask();
    }
    return answer->get_future();
}

OwnedDescriptor make_event() {
    OwnedDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event) fail_errno(errno, "cannot wait for the resolver");
    return event;
}

}  // namespace

std::string no_answer_within(std::chrono::milliseconds timeout) {
    return fmt::format("its name server has not answered within {} s",
                       std::chrono::duration<double>(timeout).count());
}

Resolved resolve_host(const std::string& host, std::chrono::milliseconds timeout) {
    if (is_numeric(host)) return ask_resolver(host);
    auto answer = ask_apart(host, {});
    if (answer.wait_for(timeout) == std::future_status::timeout) return no_answer_within(timeout);
    return answer.get();
}

asio::awaitable<Resolved> async_resolve_host(std::string host) {
    if (is_numeric(host)) co_return ask_resolver(host);
    // The thread has one end of its own, since nobody may wait any more when it answers.
    const auto told = std::make_shared<OwnedDescriptor>(make_event());
    asio::posix::stream_descriptor waiting(co_await asio::this_coro::executor,
                                           ::fcntl(told->get(), F_DUPFD_CLOEXEC, 0));
    auto answer = ask_apart(host, [told] {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(told->get(), &one, sizeof one);
    });
    co_await waiting.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
    co_return answer.get();
}

class LateName::Impl {
  public:
    Impl(std::string name, std::function<void(bool)> on_known, std::chrono::milliseconds pause)
        : name_(std::move(name)), on_known_(std::move(on_known)), pause_(pause) {}

    static void begin(const asio::any_io_executor& executor, const std::shared_ptr<Impl>& self) {
        // The slot is used until the coroutine's end is told.
        asio::co_spawn(executor, ask_until_known(self),
                       asio::bind_cancellation_slot(self->end_.slot(), [self](const std::exception_ptr&) {}));
    }

    void end() {
        on_known_ = nullptr;
        end_.emit(asio::cancellation_type::terminal);
    }

  private:
    static asio::awaitable<void> ask_until_known(std::shared_ptr<Impl> self) {
        asio::steady_timer pause(co_await asio::this_coro::executor);
        while (self->on_known_) {
            const Resolved found = co_await async_resolve_host(self->name_);
            if (!self->on_known_) break;
            if (const auto* addresses = std::get_if<std::vector<std::string>>(&found)) {
                std::exchange(self->on_known_, nullptr)(has_own_address(*addresses, local_addresses()));
                break;
            }
            pause.expires_after(self->pause_);
            co_await pause.async_wait(asio::use_awaitable);
        }
    }

    const std::string name_;
    std::function<void(bool)> on_known_;
    const std::chrono::milliseconds pause_;
    asio::cancellation_signal end_;
};

LateName::LateName(const asio::any_io_executor& executor, const std::string& name,
                   std::function<void(bool)> on_known, std::chrono::milliseconds pause)
    : impl_(std::make_shared<Impl>(name, std::move(on_known), pause)) {
    Impl::begin(executor, impl_);
}

LateName::~LateName() { impl_->end(); }

}  // namespace base
}  // namespace ddprun
