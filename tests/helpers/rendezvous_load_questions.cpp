#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/connect.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "tests/helpers/rendezvous_load.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kAskedValueBytes = 64;

// What a client sends again and again, and how long each answer is.
struct Question {
    std::string bytes;
    std::size_t answer = 0;
};

Question question_of(std::string_view operation, const std::string& key) {
    const std::string value(kAskedValueBytes, 'v');
    Question question;
    const auto put = [&question](const Request& request, std::size_t answer) {
        encode_request(question.bytes, Dialect::modern, request);
        question.answer += answer;
    };
    Request of_keys;
    of_keys.keys.emplace_back(key);
    if (operation == "get") {
        put({.opcode = Opcode::get, .key = key}, sizeof(std::uint64_t) + value.size());
    } else if (operation == "add") {
        const std::string counter = key + "/n";
        put({.opcode = Opcode::add, .key = counter, .number = 1}, sizeof(std::int64_t));
    } else if (operation == "set") {
        // It has no answer, so a question that has one goes behind it in the same packet.
        put({.opcode = Opcode::set, .key = key, .value = value}, 0);
        put({.opcode = Opcode::ping, .number = 1}, sizeof(std::uint32_t));
    } else if (operation == "wait" || operation == "check") {
        of_keys.opcode = operation == "wait" ? Opcode::wait : Opcode::check;
        put(of_keys, 1);
    } else {
        throw std::runtime_error("no such operation: " + std::string(operation));
    }
    return question;
}

struct AskingClient {
    OwnedDescriptor fd;
    std::string key;
    Question question;
    std::size_t missing = 0;  // of the answer
    long left = 0;            // questions, with the one under way
};

// The clients of one port.
class AskingClients {
  public:
    AskingClients(const Endpoint& server, int count) : set_(::epoll_create1(EPOLL_CLOEXEC)) {
        for (int number = 0; number < count; ++number) {
            AskingClient& client = clients_.emplace_back();
            client.fd = OwnedDescriptor(connect_tcp(server, kLoadTimeout));
            client.key = fmt::format("client/{:02}", number);
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.u64 = static_cast<std::uint64_t>(number);
            if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, client.fd.get(), &event) != 0)
                fail_errno(errno, "cannot wait for a client");
            std::string magic;
            encode_request(magic, Dialect::modern, {.opcode = Opcode::validate, .number = kValidateMagic});
            send(client, magic);
        }
        ask("set", 1);
    }

    void ask(std::string_view operation, long count) {
        for (AskingClient& client : clients_) client.question = question_of(operation, client.key);
        under_way_ = clients_.size();
        for (AskingClient& client : clients_) {
            client.left = count;
            ask_once(client);
        }
        std::array<epoll_event, 256> events{};
        while (under_way_ > 0) {
            const int ready = ::epoll_wait(set_.get(), events.data(), static_cast<int>(events.size()),
                                           static_cast<int>(std::chrono::milliseconds(kLoadTimeout).count()));
            if (ready == 0) throw std::runtime_error("a client was not answered");
            for (int i = 0; i < ready; ++i) receive(clients_[events[static_cast<std::size_t>(i)].data.u64]);
        }
    }

  private:
    static void send(const AskingClient& client, std::string_view bytes) {
        if (::send(client.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(bytes.size()))
            throw std::runtime_error("a client could not send a question");
    }

    static void ask_once(AskingClient& client) {
        client.missing = client.question.answer;
        send(client, client.question.bytes);
    }

    void receive(AskingClient& client) {
        std::array<char, 256> bytes{};
        const ssize_t count = ::recv(client.fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count <= 0 || static_cast<std::size_t>(count) > client.missing)
            throw std::runtime_error("a client was hung up on, or had more than its answer");
        client.missing -= static_cast<std::size_t>(count);
        if (client.missing > 0) return;
        if (--client.left > 0)
            ask_once(client);
        else
            --under_way_;
    }

    OwnedDescriptor set_;
    std::vector<AskingClient> clients_;
    std::size_t under_way_ = 0;  // clients that are not done yet
};

}  // namespace

void load_questions(const std::vector<Endpoint>& servers, int count) {
    std::vector<AskingClients> places;
    places.reserve(servers.size());
    for (const Endpoint& server : servers) places.emplace_back(server, count);
    print_line("ready");
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::size_t place = 0;
        std::string operation;
        long times = 0;
        if (!(words >> place >> operation >> times) || times < 1)
            throw std::runtime_error("not a port, an operation and a count: " + line);
        const auto begin = LoadClock::now();
        places.at(place).ask(operation, times);
        print_line(fmt::format("done ms={:.3f}", milliseconds_between(begin, LoadClock::now())));
    }
}

}  // namespace ddprun
