// For the fuzzer of texts: what users say of hosts, and what relays and their hosts' shells say.
#pragma once

#include "launcher/cluster/host_list.hpp"
#include "launcher/start/host_slots.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/split.hpp"
#include "tests/launcher/text_checks.hpp"

namespace ddprun {

inline void read_host_list(Text text) {
    const auto parsed = expand_host_list(text);
    const auto* hosts = value_of(parsed);
    if (hosts == nullptr) return;
    must(hosts->size() <= kMaxListedHosts, "more hosts than may be listed");
    for (const std::string& host : *hosts)
        must(!host.empty() && host.size() <= kMaxHostText, "a host's name that is none");
    // Quick enough only for few of them.
    if (hosts->empty() || hosts->size() > 64) return;
    std::string printed;
    for (const std::string& host : *hosts) printed += host + ",";
    const auto again = expand_host_list(printed.substr(0, printed.size() - 1));
    must(value_of(again) != nullptr && *value_of(again) == *hosts,
         "the hosts of a list are no list of theirs");
    const auto position = position_of(hosts->back(), *hosts);
    must(!position || *position < static_cast<int>(hosts->size()), "a position behind the list");
}

inline void read_hosts(Text text) {
    const auto lines = split_at(text, '\n');
    const auto file = parse_host_file(text, "hosts");
    must(value_of(file) != nullptr || std::get<std::string>(file).starts_with("hosts:"),
         "a complaint of no file");
    const auto parsed = parse_hosts(lines.front());
    const auto* hosts = value_of(parsed);
    if (hosts == nullptr) return;
    must(!hosts->empty() && hosts->size() <= kMaxListedHosts, "a list of hosts that is none");
    for (const HostSlots& host : *hosts) {
        must(!host.target.starts_with('-') && !host_of(host.target).starts_with('-'),
             "a host like an option");
        must(is_valid_host(host_of(host.target)), "a host's name that is none");
    }
    for (const auto way : {Selection::include, Selection::exclude}) {
        const auto selected = select_hosts(*hosts, way, lines.back());
        const auto* left = value_of(selected);
        must(left == nullptr || (!left->empty() && left->size() <= hosts->size()),
             "more hosts than there were");
    }
}

// Returns what a reader of frames makes of a message that is sent.
inline std::string body_of(std::string_view frame) {
    FrameReader frames(frame.size());
    frames.push(frame);
    const auto body = frames.next();
    must(body.has_value(), "a frame that is none");
    return std::string(*body);
}

inline void read_start_messages(Text text) {
    if (const auto up = parse_up(text))
        must(parse_up(body_of(frame_of(*up))).has_value(), "a message up cannot be sent again");
    if (const auto down = parse_down(text))
        must(parse_down(body_of(frame_of(*down))).has_value(), "a message down cannot be sent again");
    FrameReader frames(kMaxFrameUp);
    frames.push(text);
    while (const auto body = frames.next()) parse_up(*body);
    Handshake hands;
    hands.push(text);
}

inline void read_start_texts(Text text) {
    read_hosts(text);
    read_start_messages(text);
}

}  // namespace ddprun
