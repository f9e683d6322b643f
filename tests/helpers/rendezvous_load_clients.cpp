#include <fmt/core.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <stdexcept>

#include "rendezvous/net/connect.hpp"
#include "rendezvous/store/wire.hpp"
#include "tests/helpers/rendezvous_load.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// The answer's bytes, of which there are so many.
asio::awaitable<std::string> ask(tcp::socket& socket, std::string request, std::size_t size) {
    co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
    std::string answer(size, '\0');
    co_await asio::async_read(socket, asio::buffer(answer), asio::use_awaitable);
    co_return answer;
}

std::string bytes_of(const Request& request) {
    std::string bytes;
    encode_request(bytes, Dialect::modern, request);
    return bytes;
}

Request add_one(std::string_view key) { return {.opcode = Opcode::add, .key = key, .number = 1}; }

class ClientsLoad {
  public:
    ClientsLoad(const std::vector<Endpoint>& servers, int count)
        : servers_(servers), count_(count), input_(context_) {}

    void run() {
        begin_ = LoadClock::now();
        for (int number = 0; number < count_; ++number) {
            asio::co_spawn(context_, one_client(number), [](const std::exception_ptr& error) {
                if (error) std::rethrow_exception(error);
            });
        }
        context_.run();
    }

  private:
    asio::awaitable<void> one_client(int number) {
        const auto place = static_cast<std::size_t>(number) % servers_.size();
        tcp::socket socket = co_await async_connect_tcp(servers_[place], kLoadTimeout);
        if (++connected_ == count_) all_connected_ = LoadClock::now();
        const std::string nonce =
            co_await ask(socket,
                         bytes_of({.opcode = Opcode::validate, .number = kValidateMagic}) +
                             bytes_of({.opcode = Opcode::ping, .number = number}),
                         sizeof(std::uint32_t));
        if (load_u32(nonce.data()) != static_cast<std::uint32_t>(number))
            throw std::runtime_error("a client had another one's answer");
        co_await ask(socket, bytes_of(add_one("init/")), sizeof(std::int64_t));
        const std::string arrived = co_await ask(socket, bytes_of(add_one("barrier")), sizeof(std::int64_t));
        if (load_i64(arrived.data()) == count_) {
            const std::string done = bytes_of({.opcode = Opcode::set, .key = "barrier/all", .value = "1"});
            co_await asio::async_write(socket, asio::buffer(done), asio::use_awaitable);
        }
        Request wait{.opcode = Opcode::wait};
        wait.keys.emplace_back("barrier/all");
        co_await ask(socket, bytes_of(wait), 1);
        if (++passed_ == count_) all_passed();
        co_await stay(socket);
    }

    asio::awaitable<void> stay(tcp::socket& socket) {
        std::array<char, 1> byte{};
        boost::system::error_code error;
        co_await socket.async_read_some(asio::buffer(byte), asio::redirect_error(asio::use_awaitable, error));
        throw std::runtime_error("an idle client's connection ended: " + error.message());
    }

    void all_passed() {
        print_line(fmt::format("ready connected_ms={:.1f} passed_ms={:.1f}",
                               milliseconds_between(begin_, all_connected_),
                               milliseconds_between(begin_, LoadClock::now())));
        input_.async_wait([this] { context_.stop(); });
    }

    std::vector<Endpoint> servers_;
    int count_;
    asio::io_context context_{1};
    StandardInput input_;
    LoadClock::time_point begin_, all_connected_;
    int connected_ = 0, passed_ = 0;
};

}  // namespace

void load_clients(const std::vector<Endpoint>& servers, int count) { ClientsLoad(servers, count).run(); }

}  // namespace ddprun
