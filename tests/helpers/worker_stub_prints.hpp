// What worker_stub prints of itself; the words of its modes are in worker_stub.cpp.
#pragma once

#include <string>
#include <vector>

using Arguments = std::vector<std::string>;

constexpr int kUsage = 64;

[[noreturn]] void refuse(const std::string& why);

// One line, at once.
void say(const std::string& line);

// `SIGTERM`.
std::string name_of(int signal);
// Refuses what is none.
int to_number(const std::string& text);

void print_environment();
void print_place();
void print_stdin();
void print_descriptors();
void print_dispositions();
void print_session();
