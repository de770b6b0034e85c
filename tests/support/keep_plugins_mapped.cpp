// AddressSanitizer builds only: plug-ins stay mapped until the end, so that leak reports and lsan.supp can name them.
extern "C" int dlclose(void*) { return 0; }
